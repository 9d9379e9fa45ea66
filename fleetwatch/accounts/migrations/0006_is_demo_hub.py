from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_demo_since"),
    ]

    operations = [
        migrations.AddField(
            model_name="organisation",
            name="is_demo_hub",
            field=models.BooleanField(
                default=False,
                help_text="whether the hub was started as a demo: its agents are simulated",
            ),
        ),
        migrations.AlterField(
            model_name="organisation",
            name="demo_since",
            field=models.DateTimeField(
                null=True,
                help_text="since when the simulated fleet is loaded; None = it is not",
            ),
        ),
    ]
