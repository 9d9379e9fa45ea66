-- One row: a believed stay of a GPU that one of the nodes has or had, beside the node's row of that GPU; whether it is with this node; the oldest first.
-- In:  node_ids.
-- Again: safe, it only reads.
SELECT gpu.node_id, gpu.id, stay.gpu_id = gpu.id AS is_own, stay.first_ms, stay.last_ms
FROM inventory_gpu AS gpu
JOIN inventory_stay AS stay ON stay.uuid = gpu.uuid
WHERE gpu.node_id = ANY(%(node_ids)s::bigint[])
  AND stay.is_believed
ORDER BY stay.first_ms
