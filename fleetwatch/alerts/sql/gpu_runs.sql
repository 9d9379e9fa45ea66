-- Every part of a run, of GPUs that were in one condition in the period, and of those that are asked for: which GPU,
-- what it did (as a place in `conditions`), and from when to when.
-- In:  conditions (text[]): all there are; wanted (text): the one that makes a GPU a candidate; subjects (text[]):
--      UUIDs; start_ms, end_ms (bigint): the period.
-- Again: safe, it only reads.
WITH candidate AS MATERIALIZED (
    SELECT run.gpu_id
    FROM inventory_node AS node
    CROSS JOIN LATERAL (
        SELECT part.gpu_id
        FROM ledger_run AS part
        WHERE part.node_id = node.id
          AND part.end_ms > %(start_ms)s
          AND part.start_ms < %(end_ms)s
          AND part.condition = %(wanted)s
        -- a fence: node by node through run_by_node_end, never the whole table
        OFFSET 0
    ) AS run
    WHERE node.last_ms > %(start_ms)s
    UNION
    SELECT gpu.id
    FROM inventory_gpu AS gpu
    WHERE gpu.uuid = ANY(%(subjects)s)
)
SELECT
    part.gpu_id,
    array_position(%(conditions)s::text[], part.condition::text) - 1,
    part.start_ms,
    part.end_ms
FROM candidate
JOIN ledger_run AS part
    ON part.gpu_id = candidate.gpu_id
    AND part.end_ms > %(start_ms)s
    AND part.start_ms < %(end_ms)s
