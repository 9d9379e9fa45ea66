"""The function of ../sql that says how much disk a table takes."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0004_touched_from")]

    operations = [
        migrations.RunSQL(
            read_statement(SQL / "stored_bytes.sql"), "DROP FUNCTION telemetry_stored_bytes"
        ),
    ]
