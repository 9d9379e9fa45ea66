"""Days of the fleet by hour. All are derived: the next run makes anew what is deleted here."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("costs", "0005_fleet_days")]

    operations = [
        migrations.RunSQL("DELETE FROM costs_fleetday", migrations.RunSQL.noop),
        migrations.AddField(
            "fleetday",
            "hour_spans",
            models.BinaryField(
                default=b"",
                help_text="zstd of what the entries say, by hour cut: an entry each, of each GPU and holder",
            ),
            preserve_default=False,
        ),
        migrations.RunSQL(
            "ALTER TABLE costs_fleetday ALTER COLUMN hour_spans SET STORAGE EXTERNAL", migrations.RunSQL.noop
        ),
    ]
