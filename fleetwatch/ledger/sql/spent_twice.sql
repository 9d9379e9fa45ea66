-- One row: a physical GPU and hour cut with more time than there is, over all nodes.
-- In:  start, end (timestamptz), hour_ms.
-- Again: safe, it only reads.
WITH spent AS (
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_entry
    UNION ALL
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_adjustment
)
SELECT gpu.uuid, spent.start, sum(spent.gpu_ms)::bigint
FROM spent
JOIN inventory_gpu AS part ON part.id = spent.gpu_id
JOIN inventory_gpu AS gpu ON gpu.id = COALESCE(part.parent_id, part.id)
WHERE spent.start >= %(start)s
  AND spent.start < %(end)s
GROUP BY gpu.uuid, spent.start
HAVING count(DISTINCT spent.node_id) > 1 AND sum(spent.gpu_ms) > %(hour_ms)s
ORDER BY spent.start, gpu.uuid
