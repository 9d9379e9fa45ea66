-- One row per allocation: itself, its GPU's node, and when it held, as far as its node spoke: what the node's batches repeat of it included.
-- No hold ends after until_ms (the index held_until has it): of what may be repeated that is not known.
CREATE VIEW jobs_hold AS
SELECT
    allocation.id,
    allocation.gpu_id,
    allocation.job_id,
    allocation.source,
    allocation.share,
    gpu.node_id,
    CASE
        WHEN allocation.repeated_from_ms = node.repeated_from_ms AND node.repeated_until_ms > node.repeated_from_ms
        THEN allocation.held + (int8multirange(int8range(node.repeated_from_ms, node.repeated_until_ms)) - allocation.ended)
        ELSE allocation.held
    END AS held,
    coalesce(CASE WHEN allocation.repeated_from_ms IS NULL THEN upper(allocation.held) END, 9223372036854775807) AS until_ms
FROM jobs_allocation AS allocation
JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
JOIN inventory_node AS node ON node.id = gpu.node_id
