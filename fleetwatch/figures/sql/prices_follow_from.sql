-- One row: a digest of all that prices (costs_gpurate) and models of GPUs follow from: while it is the same, so are they.
-- Again: safe, it only reads. A sum of hashes needs no order; of each table they begin with another seed.
SELECT concat_ws(
    ' ',
    (
        SELECT sum(hash_record_extended(part, 1))
        FROM (SELECT id, uuid, node_id, parent_id, model_id FROM inventory_gpu) AS part
    ),
    (
        SELECT sum(hash_record_extended(part, 2))
        FROM (SELECT id, board_id, board_share, board_from FROM inventory_gpumodel) AS part
    ),
    (
        SELECT sum(hash_record_extended(part, 3))
        FROM (
            SELECT
                id, gpu_id, node_id, pool, gpu_model_id, node_class, region, is_example, price_per_gpu_hour, currency, valid_from, valid_to
            FROM costs_rate
        ) AS part
    ),
    (
        SELECT sum(hash_record_extended(part, 4))
        FROM (SELECT currency, usd_per_unit, valid_from FROM costs_exchangerate) AS part
    ),
    (
        SELECT sum(hash_record_extended(part, 5))
        FROM (SELECT node_id, pool, node_class, region, valid_from, valid_to FROM costs_nodeplace) AS part
    )
)
