"""Sums of days say also what GPUs of one price have together: all that a figure needs that names no GPU."""

from pathlib import Path

from django.db import migrations, models

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("costs", "0002_views_in_sql")]

    operations = [
        migrations.AddField(
            "summedday",
            "alike_spans",
            models.BinaryField(
                null=True,
                help_text="the same of GPUs of one price together, each under the one that stands for them;"
                " NULL = not summed yet",
            ),
        ),
        migrations.AlterField(
            "summedday",
            "spans",
            models.BinaryField(help_text="of each GPU, holder and kind of time, as state_spans.py packs it"),
        ),
        migrations.RunSQL(
            "ALTER TABLE costs_summedday ALTER COLUMN alike_spans SET STORAGE EXTERNAL", migrations.RunSQL.noop
        ),
        migrations.RunSQL(read_statement(SQL / "current_sums.sql"), migrations.RunSQL.noop),
    ]
