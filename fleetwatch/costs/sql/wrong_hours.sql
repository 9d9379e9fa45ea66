-- One row: a node's day whose hours are taken for current and are not what its entries sum to; milliseconds that are off,
--      of all time, of held time and of unobserved time together.
-- In:  start, end (timestamptz).
-- Again: safe, it only reads.
WITH summed AS MATERIALIZED (
    SELECT node_id, start, until FROM costs_current_sum WHERE start >= %(start)s AND until <= %(end)s
),
by_hour AS (
    SELECT
        day_hours.node_id,
        day_hours.start,
        hour.cut,
        sum(hour.capacity_ms) AS capacity_ms,
        sum(hour.held_ms) AS held_ms,
        sum(hour.unobserved_ms) AS unobserved_ms
    FROM summed
    JOIN costs_dayhours AS day_hours ON day_hours.node_id = summed.node_id AND day_hours.start = summed.start
    CROSS JOIN LATERAL unnest(day_hours.cuts, day_hours.capacity_ms, day_hours.held_ms, day_hours.unobserved_ms)
        AS hour (cut, capacity_ms, held_ms, unobserved_ms)
    GROUP BY 1, 2, 3
),
by_entry AS (
    SELECT
        summed.node_id,
        summed.start,
        entry.start AS cut,
        sum(entry.gpu_ms) AS capacity_ms,
        COALESCE(sum(entry.gpu_ms) FILTER (WHERE entry.job_id IS NOT NULL OR entry.state IN ('useful', 'underused', 'stalled', 'idle', 'starting')), 0) AS held_ms,
        COALESCE(sum(entry.gpu_ms) FILTER (WHERE entry.state = 'unobserved'), 0) AS unobserved_ms
    FROM summed
    JOIN ledger_entry AS entry
        ON  entry.node_id = summed.node_id
        AND entry.start >= summed.start
        AND entry.start < summed.until
    GROUP BY 1, 2, 3
),
off AS (
    SELECT
        COALESCE(by_hour.node_id, by_entry.node_id) AS node_id,
        COALESCE(by_hour.start, by_entry.start) AS start,
        abs(COALESCE(by_hour.capacity_ms, 0) - COALESCE(by_entry.capacity_ms, 0))
        + abs(COALESCE(by_hour.held_ms, 0) - COALESCE(by_entry.held_ms, 0))
        + abs(COALESCE(by_hour.unobserved_ms, 0) - COALESCE(by_entry.unobserved_ms, 0)) AS off_ms
    FROM by_hour
    FULL JOIN by_entry
        ON  by_entry.node_id = by_hour.node_id
        AND by_entry.start = by_hour.start
        AND by_entry.cut = by_hour.cut
)
SELECT node.name, off.start, sum(off.off_ms)::bigint AS off_ms
FROM off
JOIN inventory_node AS node ON node.id = off.node_id
WHERE off.off_ms > 0
GROUP BY node.name, off.start
ORDER BY off.start, node.name
