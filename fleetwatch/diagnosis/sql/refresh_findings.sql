-- One row: a cause that wasted time of a job. First and last are those of its cells.
-- In:  job_ids; unfit (causes that are no findings).
-- Again: safe, a finding is one row per job and cause; what people decided stays: whether a fix held the next runs tell (fixing.py).
WITH told AS (
    SELECT
        job_id,
        cause,
        min(extract(epoch FROM date_trunc('hour', start)) * 1000 + floor(log(2.0, cells & -cells)) * 300000)::bigint AS first_ms,
        max(extract(epoch FROM date_trunc('hour', start)) * 1000 + (floor(log(2.0, cells)) + 1) * 300000)::bigint AS last_ms
    FROM diagnosis_causeentry
    WHERE job_id = ANY(%(job_ids)s::bigint[])
      AND cause <> ALL(%(unfit)s::text[])
      AND high_ms > 0
    GROUP BY job_id, cause
),
gone AS (
    DELETE FROM diagnosis_finding AS finding
    WHERE job_id = ANY(%(job_ids)s::bigint[])
      AND NOT EXISTS (SELECT FROM told WHERE told.job_id = finding.job_id AND told.cause = finding.cause)
      AND NOT EXISTS (SELECT FROM diagnosis_said AS said WHERE said.finding_id = finding.id)
)
INSERT INTO diagnosis_finding AS kept (job_id, cause, first_ms, last_ms, status)
SELECT job_id, cause, first_ms, last_ms, 'open' FROM told
ON CONFLICT (job_id, cause) DO UPDATE
SET first_ms = EXCLUDED.first_ms, last_ms = EXCLUDED.last_ms
