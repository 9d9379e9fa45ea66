"""The views costs_gpurate and costs_alike: a rate of a GPU's own goes with it to other nodes."""

from importlib import import_module

from django.db import migrations

_RATE = import_module("fleetwatch.costs.migrations.0010_gpurate_in_dollars")
_ALIKE = import_module("fleetwatch.costs.migrations.0006_gpurate_by_precedence")

GPURATE = (
    _RATE.GPURATE.replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)
    .replace(
        "COALESCE(parent.id, gpu.id) AS whole_id,",
        "COALESCE(parent.uuid, gpu.uuid) AS whole_uuid,",
    )
    .replace(
        "JOIN priced AS rate ON rate.gpu_id = priced_gpu.whole_id",
        "JOIN inventory_gpu AS rated ON rated.uuid = priced_gpu.whole_uuid\n    JOIN priced AS rate ON rate.gpu_id = rated.id",
    )
)
ALIKE = _ALIKE.ALIKE.replace(
    "(SELECT DISTINCT gpu_id FROM costs_rate WHERE gpu_id IS NOT NULL) AS own ON own.gpu_id = COALESCE(parent.id, gpu.id)",
    "(\n    SELECT rated.uuid, min(rate.gpu_id) AS gpu_id\n    FROM costs_rate AS rate\n"
    "    JOIN inventory_gpu AS rated ON rated.id = rate.gpu_id\n    GROUP BY rated.uuid\n"
    ") AS own ON own.uuid = COALESCE(parent.uuid, gpu.uuid)",
)


class Migration(migrations.Migration):

    dependencies = [
        ('costs', '0021_users_of_owned_jobs'),
        ('inventory', '0006_one_row_per_gpu_and_node'),
    ]

    operations = [
        migrations.RunSQL(GPURATE, _RATE.GPURATE.replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)),
        migrations.RunSQL(ALIKE, _ALIKE.ALIKE),
    ]
