-- One row: a node's clock hour whose causes are taken for current and are not what its entries say, or save more than was wasted.
-- In:  start, end (timestamptz).
-- Again: safe, it only reads.
WITH current_hour AS MATERIALIZED (
    SELECT
        diagnosed.node_id,
        (diagnosed.day::timestamp AT TIME ZONE 'UTC') + (place - 1) * interval '1 hour' AS start
    FROM diagnosis_diagnosedday AS diagnosed
    JOIN ledger_nodeday AS posted ON posted.node_id = diagnosed.node_id AND posted.day = diagnosed.day
    CROSS JOIN generate_series(1, 24) AS place
    WHERE diagnosed.versions[place] > 0
      AND diagnosed.versions[place] = posted.versions[place]
),
hour AS MATERIALIZED (
    SELECT node_id, start FROM current_hour WHERE start >= %(start)s AND start + interval '1 hour' <= %(end)s
),
by_entry AS (
    SELECT
        hour.node_id, hour.start AS hour, entry.gpu_id, entry.start, entry.job_id,
        sum(entry.gpu_ms) AS held_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'idle' AND entry.tier = 'certain') AS idle_certain_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'idle' AND entry.tier = 'probable') AS idle_probable_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'stalled' AND entry.tier = 'probable') AS stalled_probable_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'stalled' AND entry.tier = 'potential') AS stalled_potential_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'underused') AS underused_ms
    FROM hour
    JOIN ledger_entry AS entry
        ON  entry.node_id = hour.node_id
        AND entry.start >= hour.start
        AND entry.start < hour.start + interval '1 hour'
    WHERE entry.job_id IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5
),
by_cause AS (
    SELECT
        hour.node_id, hour.start AS hour, cause.gpu_id, cause.start, cause.job_id,
        sum(cause.held_ms) AS held_ms,
        sum(cause.idle_certain_ms) AS idle_certain_ms,
        sum(cause.idle_probable_ms) AS idle_probable_ms,
        sum(cause.stalled_probable_ms) AS stalled_probable_ms,
        sum(cause.stalled_potential_ms) AS stalled_potential_ms,
        sum(cause.underused_ms) AS underused_ms,
        bool_or(
            cause.high_ms > cause.idle_certain_ms + cause.idle_probable_ms + cause.stalled_probable_ms
                + cause.stalled_potential_ms + cause.underused_ms
        ) AS saves_too_much
    FROM hour
    JOIN diagnosis_causeentry AS cause
        ON  cause.node_id = hour.node_id
        AND cause.start >= hour.start
        AND cause.start < hour.start + interval '1 hour'
    GROUP BY 1, 2, 3, 4, 5
)
SELECT
    node.name,
    COALESCE(by_cause.hour, by_entry.hour) AS hour,
    sum(
        abs(COALESCE(by_cause.idle_certain_ms, 0) - COALESCE(by_entry.idle_certain_ms, 0))
        + abs(COALESCE(by_cause.idle_probable_ms, 0) - COALESCE(by_entry.idle_probable_ms, 0))
        + abs(COALESCE(by_cause.stalled_probable_ms, 0) - COALESCE(by_entry.stalled_probable_ms, 0))
        + abs(COALESCE(by_cause.stalled_potential_ms, 0) - COALESCE(by_entry.stalled_potential_ms, 0))
        + abs(COALESCE(by_cause.underused_ms, 0) - COALESCE(by_entry.underused_ms, 0))
    )::bigint AS off_ms,
    COALESCE(bool_or(by_cause.saves_too_much), FALSE) AS saves_too_much
FROM by_cause
FULL JOIN by_entry
    ON  by_entry.node_id = by_cause.node_id
    AND by_entry.gpu_id = by_cause.gpu_id
    AND by_entry.start = by_cause.start
    AND by_entry.job_id = by_cause.job_id
JOIN inventory_node AS node ON node.id = COALESCE(by_cause.node_id, by_entry.node_id)
GROUP BY 1, 2
HAVING COALESCE(bool_or(by_cause.saves_too_much), FALSE)
    OR sum(
        abs(COALESCE(by_cause.idle_certain_ms, 0) - COALESCE(by_entry.idle_certain_ms, 0))
        + abs(COALESCE(by_cause.idle_probable_ms, 0) - COALESCE(by_entry.idle_probable_ms, 0))
        + abs(COALESCE(by_cause.stalled_probable_ms, 0) - COALESCE(by_entry.stalled_probable_ms, 0))
        + abs(COALESCE(by_cause.stalled_potential_ms, 0) - COALESCE(by_entry.stalled_potential_ms, 0))
        + abs(COALESCE(by_cause.underused_ms, 0) - COALESCE(by_entry.underused_ms, 0))
    ) > 0
ORDER BY 2, 1
