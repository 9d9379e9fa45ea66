from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0003_last_posting")]

    operations = [
        migrations.AddField(
            model_name="touchedhour",
            name="from_ms",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                help_text="nothing of the hour changed before; 0 = all of it may",
            ),
        ),
    ]
