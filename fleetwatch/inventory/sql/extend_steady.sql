-- One row per given node whose newest facts have the given digest: its last_ms before, how many of its given GPUs
-- were extended, and the earliest first window of these.
-- In:  nodes, digests, boot_starts, sequences, newest, received, agents (one batch per node, by position);
--      gpu_nodes, gpus, firsts, lasts (one row per GPU that is to be extended, by position; NULL = no window of it).
-- Again: a batch that is not newer than all before it finds no row. Nodes are locked in order of id until the transaction ends.
WITH given AS (
    SELECT *
    FROM unnest(
        %(nodes)s::bigint[], %(digests)b::bytea[], %(boot_starts)s::bigint[], %(sequences)s::bigint[],
        %(newest)s::bigint[], %(received)b::timestamptz[], %(agents)b::text[]
    ) AS batch (node_id, digest, boot_start_ms, sequence, newest_ms, received_at, agent)
), locked AS (
    SELECT
        given.*,
        node.last_ms AS was_ms
    FROM given
    JOIN inventory_node AS node ON node.id = given.node_id
    WHERE node.facts_digest = given.digest
      AND node.facts_order < jsonb_build_array(given.boot_start_ms, given.sequence)
    ORDER BY node.id
    FOR NO KEY UPDATE OF node
), moved AS (
    UPDATE inventory_node AS node
    SET last_ms = GREATEST(node.last_ms, locked.newest_ms),
        last_received_at = GREATEST(node.last_received_at, locked.received_at),
        facts_order = jsonb_build_array(locked.boot_start_ms, locked.sequence),
        agent = locked.agent::jsonb,
        clock_offset_ms = 0
    FROM locked
    WHERE node.id = locked.node_id
), extended AS (
    UPDATE inventory_gpu AS gpu
    SET last_ms = GREATEST(gpu.last_ms, seen.last_ms),
        facts_order = jsonb_build_array(locked.boot_start_ms, locked.sequence)
    FROM unnest(%(gpu_nodes)s::bigint[], %(gpus)s::bigint[], %(firsts)s::bigint[], %(lasts)s::bigint[])
        AS seen (node_id, gpu_id, first_ms, last_ms)
    JOIN locked ON locked.node_id = seen.node_id
    WHERE gpu.id = seen.gpu_id
      AND gpu.node_id = seen.node_id
      AND gpu.retired_ms IS NULL
      AND gpu.first_ms <= COALESCE(seen.first_ms, gpu.first_ms)
    RETURNING gpu.node_id, gpu.first_ms
)
SELECT
    locked.node_id,
    locked.was_ms,
    count(extended.node_id) AS extended,
    min(extended.first_ms) AS first_ms
FROM locked
LEFT JOIN extended ON extended.node_id = locked.node_id
GROUP BY locked.node_id, locked.was_ms
