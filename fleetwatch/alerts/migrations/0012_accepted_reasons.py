"""A reason why something is no waste is anybody's who may act, not its owner's alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0011_silences_of_teams_alone")]

    operations = [
        migrations.AlterField(
            "silence",
            "kind",
            models.CharField(
                choices=[
                    ("silence", "Silence"),
                    ("maintenance", "maintenance window"),
                    ("exemption", "Exemption"),
                    ("justification", "accepted reason"),
                ],
                default="silence",
                max_length=16,
            ),
        ),
    ]
