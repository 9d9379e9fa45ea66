-- One row: a UTC day of a node that was summed; its sums are written whole.
-- In:  ids of diagnosis_diagnosedday, locked by the caller: whoever changes causes of these days meanwhile waits, and unsums them.
-- Again: safe, a day's sums are deleted before they are made; a day whose causes change later says so itself (store.py).
WITH due AS (
    SELECT id, node_id, day FROM diagnosis_diagnosedday WHERE id = ANY(%(ids)s::bigint[])
),
alike AS MATERIALIZED (
    SELECT gpu_id, node_id, stands_for_id, digest FROM costs_alike
),
old AS (
    DELETE FROM diagnosis_causeday AS kept
    USING due
    WHERE kept.node_id = due.node_id AND kept.day = due.day
),
made AS (
    INSERT INTO diagnosis_causeday (
        node_id, gpu_id, day, job_id, cause, confidence, held_ms, idle_certain_ms, idle_probable_ms,
        stalled_probable_ms, stalled_potential_ms, underused_ms, low_ms, high_ms
    )
    SELECT
        due.node_id, alike.stands_for_id, due.day, entry.job_id, entry.cause, max(entry.confidence), sum(entry.held_ms),
        sum(entry.idle_certain_ms), sum(entry.idle_probable_ms), sum(entry.stalled_probable_ms),
        sum(entry.stalled_potential_ms), sum(entry.underused_ms), sum(entry.low_ms), sum(entry.high_ms)
    FROM due
    JOIN diagnosis_causeentry AS entry
        ON  entry.node_id = due.node_id
        AND entry.start >= due.day::timestamp AT TIME ZONE 'UTC'
        AND entry.start < (due.day + 1)::timestamp AT TIME ZONE 'UTC'
    JOIN alike ON alike.gpu_id = entry.gpu_id
    GROUP BY due.node_id, alike.stands_for_id, due.day, entry.job_id, entry.cause
)
UPDATE diagnosis_diagnosedday AS diagnosed
SET is_summed = TRUE, alike = COALESCE((SELECT min(digest) FROM alike WHERE alike.node_id = due.node_id), '')
FROM due
WHERE diagnosed.id = due.id
