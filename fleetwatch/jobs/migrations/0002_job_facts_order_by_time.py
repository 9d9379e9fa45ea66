"""The order of a job's facts begins with the batch's end: a job spans nodes whose boots tell nothing of each other."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="facts_order",
            field=models.JSONField(default=list, help_text="(end_ms, boot_start_ms, sequence) of the batch these facts come from"),
        ),
    ]
