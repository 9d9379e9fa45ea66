"""The order of facts is kept with what each node says (JobRecord), no longer with the job."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_records_of_known_jobs")]

    operations = [migrations.RemoveField(model_name="job", name="facts_order")]
