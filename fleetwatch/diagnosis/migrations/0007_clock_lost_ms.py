"""What the lower clock of slowed GPUs cost at most; NULL of what was judged before."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0006_step_savings")]

    operations = [
        migrations.AddField(
            "causeentry",
            "clock_lost_ms",
            models.BigIntegerField(
                null=True,
                help_text=(
                    "of slowed GPUs what the lower clock cost of the held time at most, whatever"
                    " the ledger calls it; NULL = of another cause, or not worked out"
                ),
            ),
        ),
        # every row that is there has NULL: none of them needs to be looked at
        AddConstraintNotValid(
            "causeentry",
            models.CheckConstraint(
                condition=Q(clock_lost_ms__isnull=True)
                | Q(clock_lost_ms__gte=0, clock_lost_ms__lte=F("held_ms")),
                name="a_clock_costs_a_part_of_what_was_held",
            ),
        ),
    ]
