"""Sums of days that have no hours beside them are forgotten: the hourly task makes them again, and figures read entries until then."""

from django.db import migrations

FORGET = "TRUNCATE costs_summedday, costs_daysum, costs_dayhours"


class Migration(migrations.Migration):
    dependencies = [("costs", "0015_hours_of_summed_days")]

    operations = [migrations.RunSQL(FORGET, migrations.RunSQL.noop)]
