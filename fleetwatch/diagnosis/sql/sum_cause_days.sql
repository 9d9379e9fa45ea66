-- One row: a UTC day of a node that was summed: its causes packed as cause_columns.py reads them, of each GPU, job and cause.
-- In:  ids of diagnosis_diagnosedday, locked by the caller: whoever changes causes of these days meanwhile waits, and unsums them.
-- Again: safe, a day's sums are written whole; a day whose causes change later says so itself (cause_rows.py).
WITH due AS (
    SELECT id, node_id, day FROM diagnosis_diagnosedday WHERE id = ANY(%(ids)s::bigint[])
),
part AS MATERIALIZED (
    SELECT
        due.id,
        entry.gpu_id,
        entry.job_id,
        entry.cause,
        max(entry.confidence) AS confidence,
        sum(entry.held_ms) AS held_ms,
        sum(entry.idle_certain_ms) AS idle_certain_ms,
        sum(entry.idle_probable_ms) AS idle_probable_ms,
        sum(entry.stalled_probable_ms) AS stalled_probable_ms,
        sum(entry.stalled_potential_ms) AS stalled_potential_ms,
        sum(entry.underused_ms) AS underused_ms,
        sum(entry.low_ms) AS low_ms,
        sum(entry.high_ms) AS high_ms
    FROM due
    JOIN diagnosis_causeentry AS entry
        ON  entry.node_id = due.node_id
        AND entry.start >= due.day::timestamp AT TIME ZONE 'UTC'
        AND entry.start < (due.day + 1)::timestamp AT TIME ZONE 'UTC'
    GROUP BY due.id, entry.gpu_id, entry.job_id, entry.cause
),
named AS (
    SELECT id, array_agg(DISTINCT cause) AS causes FROM part GROUP BY id
),
packed AS (
    SELECT
        named.id,
        array_to_string(named.causes, ',') AS causes,
        string_agg(
            diagnosis_span(
                gpu_id, job_id, array_position(named.causes, cause), confidence, held_ms, idle_certain_ms, idle_probable_ms,
                stalled_probable_ms, stalled_potential_ms, underused_ms, low_ms, high_ms
            ),
            ''::bytea
        ) AS spans
    FROM named
    JOIN part ON part.id = named.id
    GROUP BY named.id, named.causes
)
UPDATE diagnosis_diagnosedday AS diagnosed
SET is_summed = TRUE, times_summed = diagnosed.times_summed + 1, causes = COALESCE(packed.causes, ''), spans = COALESCE(packed.spans, '')
FROM due
LEFT JOIN packed ON packed.id = due.id
WHERE diagnosed.id = due.id
