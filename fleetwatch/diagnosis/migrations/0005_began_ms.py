"""The function of ../sql by which a machine's finding begins at the moment of its event."""

from pathlib import Path

from django.db import migrations

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("diagnosis", "0004_first_and_last_hours"),
        ("ledger", "0005_hour_runs"),
    ]

    operations = [
        migrations.RunSQL(
            read_statement(SQL / "began_ms.sql"), "DROP FUNCTION diagnosis_began_ms"
        ),
    ]
