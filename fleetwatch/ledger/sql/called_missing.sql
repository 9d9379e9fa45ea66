-- One row: a physical GPU and clock hour, and the milliseconds of it (its instances' too) that are called missing.
-- In:  node (id), start, end (timestamptz).
-- Again: safe, it only reads.
WITH missing AS (
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_entry WHERE reason IN ('missing', 'silent')
    UNION ALL
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_adjustment WHERE reason IN ('missing', 'silent')
)
SELECT COALESCE(gpu.parent_id, gpu.id), date_trunc('hour', missing.start, 'UTC'), sum(missing.gpu_ms)::bigint
FROM missing
JOIN inventory_gpu AS gpu ON gpu.id = missing.gpu_id
WHERE missing.node_id = %(node)s
  AND missing.start >= %(start)s
  AND missing.start < %(end)s
GROUP BY 1, 2
ORDER BY 1, 2
