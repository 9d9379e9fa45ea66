"""The views of ../sql, and what they unpack by. Whoever changes one runs its file again by a migration of its own."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"
FILES = {
    "costs_gpurate": "rates_in_force.sql",
    "costs_alike": "alike_gpus.sql",
    "costs_current_sum": "current_sums.sql",
    "costs_asked": "job_facts.sql",
    "costs_owned": "job_owners.sql",
    "gpu_time": "gpu_time.sql",
    "gpu_day_sums": "gpu_day_sums.sql",
}


class Migration(migrations.Migration):
    dependencies = [("costs", "0001_schema"), ("ledger", "0001_schema")]

    operations = [
        migrations.RunSQL(read_statement(SQL / "packed_integer.sql"), "DROP FUNCTION packed_integer"),
        migrations.RunSQL(read_statement(SQL / "packed_float.sql"), "DROP FUNCTION packed_float"),
        *(
            migrations.RunSQL(read_statement(SQL / file), f"DROP VIEW {view}")
            for view, file in FILES.items()
        ),
    ]
