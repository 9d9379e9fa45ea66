-- One row: a cause that wasted time of a job. First and last are those of its cells.
-- In:  job_ids, causes (of each pair its place in both).
-- Again: safe, a finding is one row per job and cause; what people decided stays: whether a fix held the next runs tell (fixing.py).
WITH pair AS (
    SELECT job_id, cause FROM unnest(%(job_ids)s::bigint[], %(causes)s::text[]) AS pair (job_id, cause)
),
told AS (
    SELECT pair.job_id, pair.cause, extent.first_ms, extent.last_ms
    FROM pair
    CROSS JOIN LATERAL diagnosis_extent(pair.job_id, pair.cause) AS extent
),
gone AS (
    DELETE FROM diagnosis_finding AS finding USING pair
    LEFT JOIN told USING (job_id, cause)
    WHERE finding.job_id = pair.job_id
      AND finding.cause = pair.cause
      AND told.job_id IS NULL
      AND NOT EXISTS (SELECT FROM diagnosis_said AS said WHERE said.finding_id = finding.id)
)
INSERT INTO diagnosis_finding AS kept (job_id, cause, first_ms, last_ms, status)
SELECT job_id, cause, first_ms, last_ms, 'open' FROM told
ON CONFLICT (job_id, cause) DO UPDATE
SET first_ms = EXCLUDED.first_ms, last_ms = EXCLUDED.last_ms
WHERE (kept.first_ms, kept.last_ms) <> (EXCLUDED.first_ms, EXCLUDED.last_ms)
