-- One row per allocation: itself, its GPU's node, and when it held, as far as its node spoke: what the node's batches repeat of it included.
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
    END AS held
FROM jobs_allocation AS allocation
JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
JOIN inventory_node AS node ON node.id = gpu.node_id
