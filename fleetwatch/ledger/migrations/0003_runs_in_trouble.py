"""Alerts ask which runs are in trouble, of a fleet each minute and of a month in a back-test."""

from django.db import migrations, models
from django.db.models.lookups import GreaterThan


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_views_in_sql")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(
                    ("condition__in", ("spinning", "orphaned")),
                    models.Q(
                        ("condition", "quiet"),
                        GreaterThan(
                            models.Func(
                                models.F("state_ms"),
                                output_field=models.IntegerField(),
                                template="(%(expressions)s)[4]",
                            ),
                            0,
                        ),
                    ),
                    _connector="OR",
                ),
                fields=["condition", "end_ms"],
                name="run_in_trouble",
            ),
        ),
    ]
