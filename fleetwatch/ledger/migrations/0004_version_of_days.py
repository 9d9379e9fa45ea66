"""A node's day has one number that says how new it is: sums of the fleet's days ask all nodes."""

from pathlib import Path

from django.db import migrations, models
from django.db.models import F, Func

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"
FIELD = models.GeneratedField(
    expression=Func(F("versions"), function="ledger_version"),
    output_field=models.BigIntegerField(),
    db_persist=True,
    help_text="all of them together: one number that grows with each",
)
INDEX = models.Index(fields=["day"], include=["version"], name="node_day_by_day")


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_runs_in_trouble")]

    operations = [
        migrations.RunSQL(read_statement(SQL / "version.sql"), "DROP FUNCTION ledger_version"),
        # the column and its index hang on the function: they are made, and go, with it
        migrations.RunSQL(
            "ALTER TABLE ledger_nodeday ADD COLUMN version bigint"
            " GENERATED ALWAYS AS (ledger_version(versions)) STORED;"
            " CREATE INDEX node_day_by_day ON ledger_nodeday (day) INCLUDE (version)",
            "ALTER TABLE ledger_nodeday DROP COLUMN version",
            state_operations=[
                migrations.AddField("nodeday", "version", FIELD),
                migrations.AddIndex("nodeday", INDEX),
            ],
        ),
    ]
