"""What of a node's day was summed is kept in one row: of each GPU, holder and kind, packed. Sums are made again by the hourly task."""

from django.db import migrations, models

# The place of a state, tier and "a kernel was running alone" among the KINDS of ledger_spans.py: kept in rows, so never another order.
KIND = """
CREATE FUNCTION costs_kind(state text, tier text, efficiency_source text) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (
        8 * (array_position(
            '{useful,underused,stalled,idle,starting,orphaned,free,unavailable,unobserved}'::text[], state
        ) - 1)
        + 2 * (array_position('{"",certain,probable,potential}'::text[], tier) - 1)
        + (state = 'useful' AND efficiency_source = 'none')::int
    )::smallint
$$
"""

# One span as the RECORD of ledger_spans.py; a job that is NULL is 0, energy that nobody read is not a number.
SPAN = """
CREATE FUNCTION costs_span(gpu_id bigint, job_id bigint, kind smallint, gpu_ms bigint, energy_j float8, energy_ms bigint)
RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int8send(gpu_id) || int8send(COALESCE(job_id, 0)) || int2send(kind)
        || int8send(gpu_ms) || float8send(COALESCE(energy_j, 'NaN')) || int8send(energy_ms)
$$
"""

FORGET = "TRUNCATE costs_summedday, costs_daysum, costs_dayhours"
# a day of eight GPUs is some 4 kB that every figure reads: beside the row, not behind it, and not compressed
INLINE = "ALTER TABLE costs_summedday ALTER COLUMN spans SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)"


class Migration(migrations.Migration):
    dependencies = [("costs", "0017_regions_from_when_on")]

    operations = [
        migrations.RunSQL(KIND, "DROP FUNCTION costs_kind(text, text, text)"),
        migrations.RunSQL(SPAN, "DROP FUNCTION costs_span(bigint, bigint, smallint, bigint, float8, bigint)"),
        migrations.RunSQL(FORGET, FORGET),
        migrations.AddField(
            "summedday",
            "spans",
            models.BinaryField(help_text="of each GPU, holder and kind of time, as ledger_spans.py reads it"),
            preserve_default=False,
        ),
        migrations.RunSQL(INLINE, migrations.RunSQL.noop),
    ]
