from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Coalesce

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0002_repeated_words"),
        ("jobs", "0006_jobs_by_cluster"),
    ]

    operations = [
        migrations.AlterField(
            model_name="allocation",
            name="gpu",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="allocations",
                to="inventory.gpu",
            ),
        ),
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(
                Coalesce(
                    models.Case(
                        models.When(
                            repeated_from_ms__isnull=True,
                            then=models.Func(
                                "held", function="upper", output_field=models.BigIntegerField()
                            ),
                        )
                    ),
                    9223372036854775807,
                ),
                name="held_until",
            ),
        ),
        migrations.RunSQL("DROP VIEW jobs_hold", migrations.RunSQL.noop),
        migrations.RunSQL(read_statement(SQL / "hold.sql"), migrations.RunSQL.noop),
    ]
