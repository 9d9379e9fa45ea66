"""What the step that a finding's advice prices would have saved alone."""

from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0005_began_ms")]

    operations = [
        migrations.AddField(
            "finding",
            "step_saved_ms",
            models.BigIntegerField(
                null=True,
                help_text="GPU time that its priced step alone would have saved; NULL = unknown",
            ),
        ),
        migrations.AddField(
            "finding",
            "step_of_ms",
            models.BigIntegerField(
                null=True, help_text="idle GPU time of the job over which that was measured"
            ),
        ),
        migrations.AddConstraint(
            "finding",
            models.CheckConstraint(
                condition=Q(step_saved_ms__isnull=True, step_of_ms__isnull=True)
                | Q(step_saved_ms__gt=0, step_of_ms__gte=F("step_saved_ms")),
                name="a_step_saves_a_part_of_what_was_idle",
            ),
        ),
    ]
