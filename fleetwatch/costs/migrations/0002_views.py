"""The views of ../sql. Whoever changes one runs its file again by a migration of its own."""

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
}


class Migration(migrations.Migration):
    dependencies = [("costs", "0001_schema"), ("ledger", "0001_schema")]

    operations = [
        migrations.RunSQL(read_statement(SQL / file), f"DROP VIEW {view}")
        for view, file in FILES.items()
    ]
