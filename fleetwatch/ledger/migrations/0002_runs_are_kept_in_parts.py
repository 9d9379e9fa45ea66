import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0001_initial"), ("ledger", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="continues",
            field=models.BooleanField(default=False, help_text="goes on from the part before it of the same GPU, holder and condition"),
        ),
        migrations.AlterField(
            model_name="run",
            name="figures",
            field=models.JSONField(default=dict, help_text="per column: ms in which it was read (_ms), sum of value x ms (_sum)"),
        ),
        migrations.CreateModel(
            name="Posted",
            fields=[
                (
                    "gpu",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="posted",
                        serialize=False,
                        to="inventory.gpu",
                    ),
                ),
                ("start_ms", models.BigIntegerField(help_text="capacity began")),
                ("end_ms", models.BigIntegerField(help_text="capacity ended, or telemetry did for now")),
                ("outages", models.JSONField(default=list, help_text="[start_ms, end_ms or null, reason] of unavailability")),
            ],
        ),
    ]
