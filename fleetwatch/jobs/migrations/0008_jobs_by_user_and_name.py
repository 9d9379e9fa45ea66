"""Jobs of one owner and name are found without those of all."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_held_until")]

    operations = [
        migrations.AddIndex(
            "job",
            models.Index(
                fields=["user", "name"],
                include=["id", "scheduler", "cluster", "end_ms"],
                name="jobs_by_user_and_name",
            ),
        ),
        migrations.RemoveIndex("job", "jobs_by_user"),
    ]
