"""Example prices of virtual GPUs were those of whole boards: they go, and come anew as shares of them (costs.ensure_example_rates).

Where a month is closed they stay: its dollars do not move.
"""

from typing import Any

from django.db import migrations

from fleetwatch.inventory.vgpu import slice_of


def forget(apps: Any, schema_editor: Any) -> None:
    if apps.get_model("ledger", "ClosedMonth").objects.exists():
        return
    models = apps.get_model("inventory", "GPUModel").objects.values_list("pk", "name")
    parts = [pk for pk, name in models if slice_of(name) is not None]
    apps.get_model("costs", "Rate").objects.filter(gpu_model_id__in=parts, is_example=True).delete()


class Migration(migrations.Migration):

    dependencies = [
        ('costs', '0022_rates_go_with_their_gpus'),
        ('inventory', '0011_figures_of_more_models'),
        ('ledger', '0017_idle_power_of_gpus'),
    ]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
