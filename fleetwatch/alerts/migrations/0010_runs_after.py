"""The function of ../sql that says what GPUs did after they were in trouble."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("alerts", "0009_clear_values"), ("ledger", "0003_runs_in_trouble")]

    operations = [
        migrations.RunSQL(
            read_statement(SQL / "runs_after.sql"), "DROP FUNCTION alerts_runs_after"
        ),
    ]
