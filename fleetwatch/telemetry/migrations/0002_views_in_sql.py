"""The view of ../sql for people. Whoever changes one runs its file again by a migration."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0001_schema")]

    operations = [
        migrations.RunSQL(read_statement(SQL / "gpu_five_minutes.sql"), "DROP VIEW gpu_five_minutes"),
    ]
