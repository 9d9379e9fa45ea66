-- Writes into GPUs' own rows and newest stays what their nodes said for them (steady.py).
-- In:  nodes (bigint[]), locked before: what this statement sees of them is the newest.
-- Again: safe; of a node that says nothing for its GPUs nothing is written.
WITH speaking AS (
    SELECT id, facts_order, continued_order, windows_ms
    FROM inventory_node
    WHERE id = ANY(%(nodes)s) AND windows_ms IS NOT NULL
), spoken_for AS (
    SELECT gpu.id, gpu.last_ms, speaking.windows_ms, speaking.facts_order
    FROM inventory_gpu AS gpu
    JOIN speaking ON gpu.node_id = speaking.id AND gpu.facts_order = speaking.continued_order
), extended AS (
    UPDATE inventory_gpu AS gpu
    SET last_ms = GREATEST(gpu.last_ms, spoken_for.windows_ms),
        facts_order = spoken_for.facts_order
    FROM spoken_for
    WHERE gpu.id = spoken_for.id
), stayed AS (
    UPDATE inventory_stay AS stay
    SET last_ms = GREATEST(stay.last_ms, spoken_for.windows_ms)
    FROM spoken_for
    WHERE stay.gpu_id = spoken_for.id
      AND stay.is_believed
      AND stay.last_ms = spoken_for.last_ms
)
UPDATE inventory_node AS node
SET continued_order = speaking.facts_order,
    windows_ms = NULL
FROM speaking
WHERE node.id = speaking.id
