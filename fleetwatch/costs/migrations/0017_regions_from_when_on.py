"""What holds in a region has a beginning: the rows of before hold from the beginning on."""

from datetime import UTC, datetime

from django.db import migrations, models

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
# on the way back a region has one row again: its newest
KEEP_NEWEST = """
DELETE FROM costs_region AS older
USING costs_region AS newer
WHERE newer.name = older.name
  AND newer.valid_from > older.valid_from
"""


class Migration(migrations.Migration):
    dependencies = [("costs", "0016_sums_are_made_again_with_hours")]

    operations = [
        migrations.AddField("region", "valid_from", models.DateTimeField(default=BEGINNING), preserve_default=False),
        migrations.AlterField("region", "name", models.CharField(blank=True, help_text='"" = nodes that name none', max_length=63)),
        migrations.AddConstraint("region", models.UniqueConstraint(fields=("name", "valid_from"), name="one_row_per_region_and_moment")),
        migrations.RunSQL(migrations.RunSQL.noop, KEEP_NEWEST),
    ]
