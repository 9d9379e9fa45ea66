-- One row: a rule that does not hold in a node's clock hour whose causes are taken for current, and by how many milliseconds:
--     `causes` are not what its entries say, `saving` exceeds what was wasted, `capacity` that is said to be won is more than was
--     free (a queue's), unavailable or orphaned (a node's), `well` wasted more than it may.
-- In:  start, end (timestamptz), well (causes that say nothing is wasted), whole (causes all of whose
--     time is waste, that of orphaned GPUs), most (of their held time that may be, percent).
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
        sum(greatest(
            cause.high_ms - cause.idle_certain_ms - cause.idle_probable_ms - cause.stalled_probable_ms
                - cause.stalled_potential_ms - cause.underused_ms,
            0
        )) AS saves_too_much_ms,
        sum(greatest(
            cause.idle_certain_ms + cause.idle_probable_ms + cause.stalled_probable_ms + cause.stalled_potential_ms
                + cause.underused_ms - cause.held_ms * %(most)s / 100,
            0
        )) FILTER (WHERE cause.cause = ANY(%(well)s::text[])) AS wasted_well_ms
    FROM hour
    JOIN diagnosis_causeentry AS cause
        ON  cause.node_id = hour.node_id
        AND cause.start >= hour.start
        AND cause.start < hour.start + interval '1 hour'
    GROUP BY 1, 2, 3, 4, 5
),
by_capacity AS (
    SELECT
        hour.node_id, hour.start AS hour, won.gpu_id,
        sum(won.high_ms) FILTER (WHERE won.cluster <> '') AS free_ms,
        sum(won.high_ms) FILTER (WHERE won.cluster = '' AND won.cause <> ALL(%(whole)s::text[])) AS unavailable_ms,
        sum(won.high_ms) FILTER (WHERE won.cause = ANY(%(whole)s::text[])) AS orphaned_ms
    FROM hour
    JOIN diagnosis_capacityentry AS won
        ON  won.node_id = hour.node_id
        AND won.start >= hour.start
        AND won.start < hour.start + interval '1 hour'
    WHERE won.high_ms > 0
    GROUP BY 1, 2, 3
),
there AS (
    SELECT
        won.node_id, won.hour, won.gpu_id,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'free') AS free_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'unavailable') AS unavailable_ms,
        sum(entry.gpu_ms) FILTER (WHERE entry.state = 'orphaned') AS orphaned_ms
    FROM by_capacity AS won
    JOIN ledger_entry AS entry
        ON  entry.node_id = won.node_id
        AND entry.gpu_id = won.gpu_id
        AND entry.start >= won.hour
        AND entry.start < won.hour + interval '1 hour'
    GROUP BY 1, 2, 3
),
fault AS (
    SELECT
        COALESCE(by_cause.node_id, by_entry.node_id) AS node_id,
        COALESCE(by_cause.hour, by_entry.hour) AS hour,
        'causes' AS rule,
        abs(COALESCE(by_cause.idle_certain_ms, 0) - COALESCE(by_entry.idle_certain_ms, 0))
            + abs(COALESCE(by_cause.idle_probable_ms, 0) - COALESCE(by_entry.idle_probable_ms, 0))
            + abs(COALESCE(by_cause.stalled_probable_ms, 0) - COALESCE(by_entry.stalled_probable_ms, 0))
            + abs(COALESCE(by_cause.stalled_potential_ms, 0) - COALESCE(by_entry.stalled_potential_ms, 0))
            + abs(COALESCE(by_cause.underused_ms, 0) - COALESCE(by_entry.underused_ms, 0)) AS off_ms
    FROM by_cause
    FULL JOIN by_entry
        ON  by_entry.node_id = by_cause.node_id
        AND by_entry.gpu_id = by_cause.gpu_id
        AND by_entry.start = by_cause.start
        AND by_entry.job_id = by_cause.job_id
    UNION ALL
    SELECT node_id, hour, 'saving', saves_too_much_ms FROM by_cause
    UNION ALL
    SELECT node_id, hour, 'well', wasted_well_ms FROM by_cause
    UNION ALL
    SELECT
        won.node_id, won.hour, 'capacity',
        greatest(COALESCE(won.free_ms, 0) - COALESCE(there.free_ms, 0), 0)
            + greatest(COALESCE(won.unavailable_ms, 0) - COALESCE(there.unavailable_ms, 0), 0)
            + greatest(COALESCE(won.orphaned_ms, 0) - COALESCE(there.orphaned_ms, 0), 0)
    FROM by_capacity AS won
    LEFT JOIN there ON there.node_id = won.node_id AND there.hour = won.hour AND there.gpu_id = won.gpu_id
)
SELECT node.name, fault.hour, fault.rule, sum(fault.off_ms)::bigint AS off_ms
FROM fault
JOIN inventory_node AS node ON node.id = fault.node_id
WHERE fault.off_ms > 0
GROUP BY 1, 2, 3
ORDER BY 2, 1, 3
