"""Enrolment tokens let in 1,000 nodes at most: those that were made for more let in so many from now on."""

from django.db import migrations, models

CLAMP = "UPDATE ingest_enrollmenttoken SET uses_left = 1000 WHERE uses_left > 1000"


class Migration(migrations.Migration):
    dependencies = [("ingest", "0001_initial")]

    operations = [
        migrations.RunSQL(CLAMP, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="enrollmenttoken",
            constraint=models.CheckConstraint(condition=models.Q(("uses_left__lte", 1000)), name="at_most_1000_uses_of_an_enrolment_token"),
        ),
    ]
