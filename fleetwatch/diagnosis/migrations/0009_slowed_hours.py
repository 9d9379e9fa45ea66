"""A finding of slowed GPUs is from its first to its last slowed hour, whether these wasted or not:
the function of ../sql, and the index that it reads.
"""

from pathlib import Path

from django.db import migrations, models
from django.db.models import Q

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0008_times_summed")]

    operations = [
        migrations.RemoveIndex("causeentry", "throttled_by_node"),
        migrations.AddIndex(
            "causeentry",
            models.Index(
                fields=["node", "start"], condition=Q(cause="throttled"), name="throttled_by_node"
            ),
        ),
        # of a database of before this migration the function is there
        migrations.RunSQL(
            read_statement(SQL / "slowed_hours.sql"), "DROP FUNCTION diagnosis_slowed_hours"
        ),
    ]
