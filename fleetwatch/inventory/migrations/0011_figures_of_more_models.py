"""GPU models that are in the catalogue now, and were registered without figures, have them."""

from typing import Any

from django.db import migrations

from fleetwatch.inventory.gpu_models import FIGURES


def fill(apps: Any, schema_editor: Any) -> None:
    models = apps.get_model("inventory", "GPUModel").objects
    for name, (idle_w, limit_w) in FIGURES.items():
        models.filter(name=name, idle_w=None, limit_w=None).update(idle_w=idle_w, limit_w=limit_w)


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0010_silence_on_the_bill'),
    ]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
