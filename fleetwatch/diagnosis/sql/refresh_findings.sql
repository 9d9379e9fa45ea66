-- One row: a cause that wasted time of a job. First and last are those of its cells.
-- In:  job_ids, causes (of each pair its place in both).
-- Reads the first and the last cut of each pair alone, by index: how long a job has run makes no difference.
-- Again: safe, a finding is one row per job and cause; what people decided stays: whether a fix held the next runs tell (fixing.py).
WITH pair AS (
    SELECT job_id, cause FROM unnest(%(job_ids)s::bigint[], %(causes)s::text[]) AS pair (job_id, cause)
),
told AS (
    SELECT
        pair.job_id,
        pair.cause,
        -- a bit for each of the hour's twelve cells, the highest is the last
        extract(epoch FROM date_trunc('hour', oldest.start))::bigint * 1000
            + (position('1' IN reverse(first.cells::int::bit(12)::text)) - 1) * 300000 AS first_ms,
        extract(epoch FROM date_trunc('hour', newest.start))::bigint * 1000
            + (13 - position('1' IN last.cells::int::bit(12)::text)) * 300000 AS last_ms
    FROM pair
    CROSS JOIN LATERAL (
        SELECT start FROM diagnosis_causeentry AS entry
        WHERE entry.job_id = pair.job_id AND entry.cause = pair.cause AND high_ms > 0
        ORDER BY start LIMIT 1
    ) AS oldest
    CROSS JOIN LATERAL (
        SELECT start FROM diagnosis_causeentry AS entry
        WHERE entry.job_id = pair.job_id AND entry.cause = pair.cause AND high_ms > 0
        ORDER BY start DESC LIMIT 1
    ) AS newest
    CROSS JOIN LATERAL (
        SELECT bit_or(cells) AS cells FROM diagnosis_causeentry AS entry
        WHERE entry.job_id = pair.job_id AND entry.cause = pair.cause AND entry.start = oldest.start AND high_ms > 0
    ) AS first
    CROSS JOIN LATERAL (
        SELECT bit_or(cells) AS cells FROM diagnosis_causeentry AS entry
        WHERE entry.job_id = pair.job_id AND entry.cause = pair.cause AND entry.start = newest.start AND high_ms > 0
    ) AS last
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
