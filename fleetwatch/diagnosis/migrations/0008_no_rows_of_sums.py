"""Sums of days are packed in the row of their day (0007): rows for each job and cause, of GPUs of one price, are gone."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0007_causes_of_summed_days")]

    operations = [migrations.DeleteModel("CauseDay"), migrations.RemoveField("diagnosedday", "alike")]
