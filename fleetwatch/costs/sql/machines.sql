-- One row: a GPU, the physical one that it is (part of), and the model's id of that one (of itself where that is not known), or NULL.
-- In:  gpu_ids.
-- Again: safe, it only reads.
SELECT
    gpu.id,
    COALESCE(gpu.parent_id, gpu.id) AS physical_id,
    COALESCE(parent.model_id, gpu.model_id) AS model_id
FROM inventory_gpu AS gpu
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
WHERE gpu.id = ANY(%(gpu_ids)s::bigint[])
