"""Sums of days are packed in the row of their day (0018): rows for each holder and state are gone."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("costs", "0018_spans_of_summed_days")]

    operations = [migrations.DeleteModel("DaySum")]
