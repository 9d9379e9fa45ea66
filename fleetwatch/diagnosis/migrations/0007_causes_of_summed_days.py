"""What of a node's day its causes took is kept in one row: of each GPU, job and cause, packed. Sums are made again by the next run."""

from django.db import migrations, models

# One row of the RECORD of cause_columns.py. A GPU's day is 86,400,000 ms: four bytes hold it.
SPAN = """
CREATE FUNCTION diagnosis_span(
    gpu_id bigint, job_id bigint, cause int, confidence smallint, held_ms numeric, idle_certain_ms numeric, idle_probable_ms numeric,
    stalled_probable_ms numeric, stalled_potential_ms numeric, underused_ms numeric, low_ms numeric, high_ms numeric
) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int8send(gpu_id) || int8send(job_id) || int2send(cause::smallint) || int2send(confidence)
        || int4send(held_ms::int) || int4send(idle_certain_ms::int) || int4send(idle_probable_ms::int)
        || int4send(stalled_probable_ms::int) || int4send(stalled_potential_ms::int) || int4send(underused_ms::int)
        || int4send(low_ms::int) || int4send(high_ms::int)
$$
"""
DROP = "DROP FUNCTION diagnosis_span(bigint, bigint, int, smallint, numeric, numeric, numeric, numeric, numeric, numeric, numeric, numeric)"
FORGET = "UPDATE diagnosis_diagnosedday SET is_summed = FALSE WHERE is_summed"
# a day of eight GPUs is some 3 kB that every list of findings reads: beside the row, not behind it, and not compressed
INLINE = "ALTER TABLE diagnosis_diagnosedday ALTER COLUMN spans SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)"


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0006_causes_of_nodes_are_theirs")]

    operations = [
        migrations.RunSQL(SPAN, DROP),
        migrations.RunSQL(FORGET, FORGET),
        migrations.AddField(
            "diagnosedday",
            "causes",
            models.TextField(
                blank=True, default="", db_default="", help_text="what numbers in spans stand for, from 1 on, with commas"
            ),
        ),
        migrations.AddField(
            "diagnosedday",
            "spans",
            models.BinaryField(
                default=b"", db_default=b"", help_text="of each GPU, job and cause, as cause_columns.py reads them"
            ),
        ),
        migrations.AlterField(
            "diagnosedday",
            "is_summed",
            models.BooleanField(default=False, db_default=False, help_text="whether its spans say what its CauseEntries say"),
        ),
        migrations.RunSQL(INLINE, migrations.RunSQL.noop),
    ]
