-- The nodes repeat nothing any more, and nobody has to recall them. One row per node that did: its id.
-- In:  node_ids: locked before.
-- Again: safe.
WITH recalled AS (
    DELETE FROM inventory_recallednode
    WHERE node_id = ANY(%(node_ids)s::bigint[])
),
word AS (
    UPDATE jobs_jobrecord
    SET repeated_from_ms = NULL
    WHERE node_id = ANY(%(node_ids)s::bigint[])
      AND repeated_from_ms IS NOT NULL
),
hold AS (
    UPDATE jobs_allocation AS hold
    SET repeated_from_ms = NULL
    FROM inventory_gpu AS gpu
    WHERE gpu.node_id = ANY(%(node_ids)s::bigint[])
      AND hold.gpu_id = gpu.id
      AND hold.repeated_from_ms IS NOT NULL
),
answer AS (
    UPDATE jobs_sourcereport
    SET repeated_from_ms = NULL
    WHERE node_id = ANY(%(node_ids)s::bigint[])
      AND repeated_from_ms IS NOT NULL
)
UPDATE inventory_node
SET words_digest = NULL,
    repeated_from_ms = NULL,
    repeated_until_ms = NULL
WHERE id = ANY(%(node_ids)s::bigint[])
  AND words_digest IS NOT NULL
RETURNING id
