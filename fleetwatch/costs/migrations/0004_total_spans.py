"""Sums of days say also what all holders have together: what a figure needs that names no job."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("costs", "0003_alike_spans")]

    operations = [
        migrations.AddField(
            "summedday",
            "total_spans",
            models.BinaryField(
                null=True, help_text="these of all holders together, under none; NULL = not summed yet"
            ),
        ),
        migrations.RunSQL(
            "ALTER TABLE costs_summedday ALTER COLUMN total_spans SET STORAGE EXTERNAL", migrations.RunSQL.noop
        ),
    ]
