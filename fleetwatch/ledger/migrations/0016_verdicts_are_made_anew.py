"""All that is kept is judged anew: what is no work, what video engines do, and which slices are free are told otherwise now."""

from django.db import migrations

# One mark: a clock hour of a node of which windows are kept. Again: safe, an hour that is marked twice is judged once.
JUDGE_AGAIN = """
INSERT INTO telemetry_touchedhour (node_id, hour)
SELECT node_id, generate_series(date_trunc('hour', min(first), 'UTC'), max(last) - interval '1 millisecond', interval '1 hour')
FROM (
    SELECT node_id, start AS first, "end" AS last FROM telemetry_chunk
    UNION ALL
    SELECT node_id, to_timestamp(start_ms / 1000.0), to_timestamp(end_ms / 1000.0)
    FROM telemetry_batch
    WHERE start_ms IS NOT NULL
) AS kept
GROUP BY node_id
"""


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0015_posted_spans'),
        ('telemetry', '0007_windows_of_gpus_that_moved'),
    ]

    operations = [migrations.RunSQL(JUDGE_AGAIN, migrations.RunSQL.noop)]
