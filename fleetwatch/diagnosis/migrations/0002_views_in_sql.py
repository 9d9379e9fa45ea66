"""The views of ../sql for people. Whoever changes one runs its file again by a migration."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("costs", "0002_views_in_sql"), ("diagnosis", "0001_schema")]

    operations = [
        migrations.RunSQL(read_statement(SQL / "gpu_causes.sql"), "DROP VIEW gpu_causes"),
        migrations.RunSQL(read_statement(SQL / "gpu_day_causes.sql"), "DROP VIEW gpu_day_causes"),
    ]
