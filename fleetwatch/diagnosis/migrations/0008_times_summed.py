"""How often a node's day of causes was summed: by that a process knows whether what it keeps of the
day is as it was.
"""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0007_clock_lost_ms")]

    operations = [
        migrations.AddField(
            "diagnosedday",
            "times_summed",
            models.IntegerField(
                default=0,
                db_default=0,
                help_text="how often; what it was before is the same while this is",
            ),
        ),
        migrations.AddIndex(
            "diagnosedday",
            models.Index(
                fields=["day", "node"],
                include=["id", "times_summed"],
                condition=Q(is_summed=True),
                name="summed_by_day",
            ),
        ),
    ]
