from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_repeated_words")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["cluster"], name="jobs_by_cluster"),
        ),
    ]
