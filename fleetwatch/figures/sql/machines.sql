-- One row: a GPU, the physical one that it is (part of) as the node has it that reported it last, and the model's id of that one
--      (of itself where that is not known), or NULL.
-- In:  gpu_ids.
-- Again: safe, it only reads.
SELECT
    gpu.id,
    CASE
        WHEN whole.retired_ms IS NULL THEN whole.id
        -- it may be elsewhere now
        ELSE (
            SELECT same.id
            FROM inventory_gpu AS same
            WHERE same.uuid = whole.uuid
            ORDER BY same.last_ms DESC NULLS LAST, same.id
            LIMIT 1
        )
    END AS physical_id,
    COALESCE(whole.model_id, gpu.model_id) AS model_id
FROM inventory_gpu AS gpu
JOIN inventory_gpu AS whole ON whole.id = COALESCE(gpu.parent_id, gpu.id)
WHERE gpu.id = ANY(%(gpu_ids)s::bigint[])
