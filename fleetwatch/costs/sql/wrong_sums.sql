-- One row: a node's day whose sum is taken for current and is not what its entries sum to.
-- In:  start, end (timestamptz).
-- Again: safe, it only reads.
WITH summed AS MATERIALIZED (
    SELECT node_id, start, until FROM costs_current_sum WHERE start >= %(start)s AND until <= %(end)s
),
by_sum AS (
    SELECT day_sum.node_id, day_sum.start, day_sum.job_id, day_sum.state, day_sum.tier, sum(day_sum.gpu_ms) AS gpu_ms
    FROM costs_daysum AS day_sum
    JOIN summed ON summed.node_id = day_sum.node_id AND summed.start = day_sum.start
    GROUP BY 1, 2, 3, 4, 5
),
by_entry AS (
    SELECT summed.node_id, summed.start, entry.job_id, entry.state, entry.tier, sum(entry.gpu_ms) AS gpu_ms
    FROM summed
    JOIN ledger_entry AS entry
        ON  entry.node_id = summed.node_id
        AND entry.start >= summed.start
        AND entry.start < summed.until
    GROUP BY 1, 2, 3, 4, 5
)
SELECT node.name, day.start, sum(abs(COALESCE(by_sum.gpu_ms, 0) - COALESCE(by_entry.gpu_ms, 0)))::bigint AS off_ms
FROM by_sum
FULL JOIN by_entry
    ON  by_entry.node_id = by_sum.node_id
    AND by_entry.start = by_sum.start
    AND by_entry.job_id IS NOT DISTINCT FROM by_sum.job_id
    AND by_entry.state = by_sum.state
    AND by_entry.tier = by_sum.tier
CROSS JOIN LATERAL (VALUES (COALESCE(by_sum.node_id, by_entry.node_id), COALESCE(by_sum.start, by_entry.start))) AS day (node_id, start)
JOIN inventory_node AS node ON node.id = day.node_id
WHERE by_sum.gpu_ms IS DISTINCT FROM by_entry.gpu_ms
GROUP BY node.name, day.start
ORDER BY day.start, node.name
