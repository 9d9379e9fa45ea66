import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """A node's day by GPU, hour and state in one row: what the map of states reads of weeks."""

    dependencies = [("ledger", "0007_keys_of_runs_are_not_checked_row_by_row")]

    operations = [
        migrations.CreateModel(
            name="StateDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("versions", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=24)),
                (
                    "spent",
                    models.BinaryField(help_text="zstd of GPU ids (int64), then milliseconds (uint32): GPUs x 24 x states by name"),
                ),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="inventory.node"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("node", "day"), name="one_state_day_per_node_and_day")],
            },
        ),
        # it is packed already
        migrations.RunSQL(
            "ALTER TABLE ledger_stateday ALTER COLUMN spent SET STORAGE EXTERNAL",
            "ALTER TABLE ledger_stateday ALTER COLUMN spent SET STORAGE EXTENDED",
        ),
    ]
