-- One row: a model (NULL = not known) and the GPUs of it, also those that are no more: their ids, and beside each its node's, packed.
--      Instances have their parent's model.
-- Again: safe, it only reads.
SELECT COALESCE(whole.model_id, gpu.model_id), string_agg(int8send(gpu.id) || int8send(gpu.node_id), ''::bytea)
FROM inventory_gpu AS gpu
JOIN inventory_gpu AS whole ON whole.id = COALESCE(gpu.parent_id, gpu.id)
GROUP BY 1
