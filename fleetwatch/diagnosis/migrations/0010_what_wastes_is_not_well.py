"""What wasted more than 15 % is no longer called well or without telemetry; days of which windows are kept are judged anew."""

from django.db import migrations

# One row: a node's day in which such time was told otherwise, to be summed again. Again: safe, nothing is left to tell.
NOT_WELL = """
WITH told AS (
    UPDATE diagnosis_causeentry
    SET cause = 'undetermined', confidence = 0, also = '{}', low_ms = 0, high_ms = 0
    WHERE cause IN ('healthy', 'busy', 'video_engines', 'no_telemetry')
      AND (idle_certain_ms + idle_probable_ms + stalled_probable_ms + stalled_potential_ms + underused_ms) * 100 > held_ms * 15
    RETURNING node_id, start
)
UPDATE diagnosis_diagnosedday AS summed
SET is_summed = false
FROM (SELECT DISTINCT node_id, (start AT TIME ZONE 'UTC')::date AS day FROM told) AS touched
WHERE summed.node_id = touched.node_id AND summed.day = touched.day
"""
# One row: a node's day that is due. Of the first kept day windows may be gone already: it stays as it is. Again: safe.
JUDGE_AGAIN = """
UPDATE diagnosis_diagnosedday AS judged
SET versions = array_fill(0::bigint, ARRAY[24])
FROM (SELECT node_id, (min(start) AT TIME ZONE 'UTC')::date AS first_day FROM telemetry_chunk GROUP BY node_id) AS kept
WHERE judged.node_id = kept.node_id AND judged.day > kept.first_day
"""


class Migration(migrations.Migration):

    dependencies = [
        ('diagnosis', '0009_findings_by_index'),
        ('telemetry', '0007_windows_of_gpus_that_moved'),
    ]

    operations = [
        migrations.RunSQL(NOT_WELL, migrations.RunSQL.noop),
        migrations.RunSQL(JUDGE_AGAIN, migrations.RunSQL.noop),
    ]
