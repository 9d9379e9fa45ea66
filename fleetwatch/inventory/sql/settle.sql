-- Writes into GPUs' own rows what their nodes said for them (steady.py).
-- In:  nodes (bigint[]), locked before: what this statement sees of them is the newest.
-- Again: safe; of a node that says nothing for its GPUs nothing is written.
WITH speaking AS (
    SELECT id, facts_order, continued_order, windows_ms
    FROM inventory_node
    WHERE id = ANY(%(nodes)s) AND windows_ms IS NOT NULL
), extended AS (
    UPDATE inventory_gpu AS gpu
    SET last_ms = GREATEST(gpu.last_ms, speaking.windows_ms),
        facts_order = speaking.facts_order
    FROM speaking
    WHERE gpu.node_id = speaking.id AND gpu.facts_order = speaking.continued_order
)
UPDATE inventory_node AS node
SET continued_order = speaking.facts_order,
    windows_ms = NULL
FROM speaking
WHERE node.id = speaking.id
