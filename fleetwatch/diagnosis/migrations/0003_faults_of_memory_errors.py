"""Hours with memory errors alone are no fault of a node: its GPUs worked. Findings begin and end with
what is left, and those of nothing else go, unless somebody said something of them.
"""

from django.db import migrations

FORGET = """
WITH touched AS (
    SELECT DISTINCT node_id FROM diagnosis_capacityentry
    WHERE cause = 'gpu_fault' AND cluster = '' AND high_ms = 0
),
forgotten AS (
    DELETE FROM diagnosis_capacityentry
    WHERE cause = 'gpu_fault' AND cluster = '' AND high_ms = 0
),
-- as before the deletion: what stays is asked for
span AS (
    SELECT entry.node_id, min(entry.start) AS first_start, max(entry.start) AS last_start
    FROM diagnosis_capacityentry AS entry
    JOIN touched USING (node_id)
    WHERE entry.cause = 'gpu_fault' AND entry.cluster = '' AND entry.high_ms > 0
    GROUP BY entry.node_id
),
gone AS (
    DELETE FROM diagnosis_finding AS finding
    USING touched
    WHERE finding.node_id = touched.node_id
      AND finding.cause = 'gpu_fault'
      AND NOT EXISTS (SELECT FROM span WHERE span.node_id = finding.node_id)
      AND NOT EXISTS (SELECT FROM diagnosis_said AS said WHERE said.finding_id = finding.id)
)
UPDATE diagnosis_finding AS finding
SET first_ms = (extract(epoch FROM span.first_start) * 1000)::bigint,
    last_ms = LEAST(
        finding.last_ms,
        (extract(epoch FROM date_trunc('hour', span.last_start, 'UTC')) * 1000)::bigint + 3600000
    )
FROM span
WHERE finding.node_id = span.node_id AND finding.cause = 'gpu_fault' AND finding.job_id IS NULL
"""


class Migration(migrations.Migration):
    dependencies = [("diagnosis", "0002_views_in_sql")]

    operations = [migrations.RunSQL(FORGET, migrations.RunSQL.noop)]
