"""Sums of days that do not know the time of their energy are forgotten: the hourly task makes them again, and figures read entries until then."""

from django.db import migrations

FORGET = "TRUNCATE costs_summedday, costs_daysum"


class Migration(migrations.Migration):
    dependencies = [("costs", "0007_components_and_time_of_energy")]

    operations = [migrations.RunSQL(FORGET, migrations.RunSQL.noop)]
