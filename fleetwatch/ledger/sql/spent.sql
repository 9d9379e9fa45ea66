-- One row: a physical GPU and hour cut with milliseconds in any state, its instances' and adjustments' too.
-- In:  node (id), start, end (timestamptz).
-- Again: safe, it only reads.
WITH spent AS (
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_entry
    UNION ALL
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_adjustment
)
SELECT COALESCE(gpu.parent_id, gpu.id), spent.start, sum(spent.gpu_ms)::bigint
FROM spent
JOIN inventory_gpu AS gpu ON gpu.id = spent.gpu_id
WHERE spent.node_id = %(node)s
  AND spent.start >= %(start)s
  AND spent.start < %(end)s
GROUP BY 1, 2
HAVING sum(spent.gpu_ms) <> 0
