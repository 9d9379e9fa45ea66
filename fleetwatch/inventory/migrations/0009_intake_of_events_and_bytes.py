"""How many events and bytes of batches a node brought in an hour is counted too."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("inventory", "0008_intake_of_gpus"),
    ]

    operations = [
        migrations.AddField(
            model_name="intake",
            name="events",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="intake",
            name="batch_bytes",
            field=models.BigIntegerField(default=0, help_text="as sent, but those that came the short way (ingest/door.py)"),
        ),
    ]
