"""Which jobs changed owners, noted by triggers."""

from pathlib import Path

from django.db import migrations, models

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("costs", "0006_hours_of_fleet_days"), ("jobs", "0001_schema")]

    operations = [
        migrations.CreateModel(
            name="OwnerChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("transaction_id", models.BigIntegerField(help_text="that made the change")),
                ("seen_at", models.DateTimeField(help_text="since when at the latest all could see it", null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["transaction_id"], name="owner_change_by_transaction")],
            },
        ),
        migrations.RunSQL(
            read_statement(SQL / "note_owner_changes.sql"), "DROP FUNCTION costs_note_owner_change CASCADE"
        ),
    ]
