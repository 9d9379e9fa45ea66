"""Days of the fleet, summed over its nodes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("costs", "0004_total_spans"), ("ledger", "0004_version_of_days")]

    operations = [
        migrations.CreateModel(
            name="FleetDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("start", models.DateTimeField(help_text="the organisation's midnight", unique=True)),
                ("until", models.DateTimeField(help_text="and the next one")),
                (
                    "version",
                    models.BigIntegerField(
                        help_text="ledger.NodeDay's of all nodes and UTC days that it touches, together"
                    ),
                ),
                ("last_gpu_id", models.BigIntegerField(help_text="the newest GPU there was")),
                (
                    "alike",
                    models.CharField(
                        help_text="digest of which GPUs up to that one have one price and model", max_length=32
                    ),
                ),
                (
                    "job_spans",
                    models.BinaryField(
                        help_text="zstd of spans as state_spans.py has them: of each group of GPUs (under its first"
                        " one), holder and kind of time"
                    ),
                ),
                (
                    "total_spans",
                    models.BinaryField(help_text="the same of all holders together, under none"),
                ),
                ("node_spans", models.BinaryField(help_text="the same of each node by itself")),
                ("gpu_spans", models.BinaryField(help_text="the same of each GPU by itself")),
            ],
        ),
        migrations.AddIndex("summedday", models.Index(fields=["start"], name="summed_day_by_start")),
        migrations.RunSQL(
            "ALTER TABLE costs_fleetday ALTER COLUMN job_spans SET STORAGE EXTERNAL,"
            " ALTER COLUMN node_spans SET STORAGE EXTERNAL, ALTER COLUMN gpu_spans SET STORAGE EXTERNAL",
            migrations.RunSQL.noop,
        ),
    ]
