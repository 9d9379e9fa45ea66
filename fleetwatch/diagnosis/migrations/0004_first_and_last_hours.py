"""The functions of ../sql that findings are refreshed by."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0003_faults_of_memory_errors")]

    operations = [
        migrations.RunSQL(
            read_statement(SQL / "extent_of_waste.sql"), "DROP FUNCTION diagnosis_extent"
        ),
        migrations.RunSQL(
            read_statement(SQL / "capacity_hours.sql"), "DROP FUNCTION diagnosis_capacity_hours"
        ),
    ]
