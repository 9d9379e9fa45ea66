-- One row: what causes of a part of a UTC day took, on all nodes of which that day is summed, packed as cause_columns.py reads them; before
--      it, as in caused.sql, node, step and era (0), and the names of the causes.
-- In:  day; start, end (cuts of the ledger within it).
-- Again: safe, it only reads.
WITH part AS MATERIALIZED (
    SELECT
        entry.gpu_id,
        entry.job_id,
        entry.cause,
        max(entry.confidence) AS confidence,
        sum(entry.held_ms::int) AS held_ms,
        sum(entry.idle_certain_ms::int) AS idle_certain_ms,
        sum(entry.idle_probable_ms::int) AS idle_probable_ms,
        sum(entry.stalled_probable_ms::int) AS stalled_probable_ms,
        sum(entry.stalled_potential_ms::int) AS stalled_potential_ms,
        sum(entry.underused_ms::int) AS underused_ms,
        sum(entry.low_ms::int) AS low_ms,
        sum(entry.high_ms::int) AS high_ms
    FROM diagnosis_diagnosedday AS diagnosed
    -- the fence: each node by the index on (node, start)
    CROSS JOIN LATERAL (
        SELECT *
        FROM diagnosis_causeentry
        WHERE node_id = diagnosed.node_id
          AND start >= %(start)s::timestamptz
          AND start < %(end)s::timestamptz
        OFFSET 0
    ) AS entry
    WHERE diagnosed.is_summed
      AND diagnosed.day = %(day)s::date
    GROUP BY entry.gpu_id, entry.job_id, entry.cause
),
named AS MATERIALIZED (
    SELECT array_agg(cause ORDER BY cause) AS causes FROM (SELECT DISTINCT cause FROM part) AS one
)
SELECT
    0,
    0,
    0,
    array_to_string(named.causes, ','),
    string_agg(
        diagnosis_span(
            gpu_id, job_id, array_position(named.causes, cause), confidence, held_ms, idle_certain_ms, idle_probable_ms, stalled_probable_ms,
            stalled_potential_ms, underused_ms, low_ms, high_ms
        ),
        ''::bytea
    )
FROM part
CROSS JOIN named
GROUP BY named.causes
