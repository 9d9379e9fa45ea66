-- The view costs_alike. One row: a GPU, and the GPU that stands for all of its node that have one
-- price with it (those of one model; a GPU that has or had a rate of its own stands alone;
-- instances have their parent's); `digest` is of the whole node's grouping.
CREATE OR REPLACE VIEW costs_alike AS
SELECT
    gpu.id AS gpu_id,
    gpu.node_id,
    min(gpu.id) OVER (
        PARTITION BY gpu.node_id, COALESCE(parent.model_id, gpu.model_id), own.gpu_id
    ) AS stands_for_id,
    md5(string_agg(
        gpu.id::text || ':' || COALESCE(parent.model_id, gpu.model_id, 0)::text
            || COALESCE(':' || own.gpu_id::text, ''),
        ','
    ) OVER (
        PARTITION BY gpu.node_id ORDER BY gpu.id
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )) AS digest
FROM inventory_gpu AS gpu
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN (
    SELECT rated.uuid, min(rate.gpu_id) AS gpu_id
    FROM costs_rate AS rate
    JOIN inventory_gpu AS rated ON rated.id = rate.gpu_id
    GROUP BY rated.uuid
) AS own ON own.uuid = COALESCE(parent.uuid, gpu.uuid)
