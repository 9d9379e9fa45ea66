-- One row: a price and the GPUs that have it over [valid_from, valid_to) (NULL = from then on): their ids, packed.
-- Again: safe, it only reads.
SELECT
    usd_per_gpu_hour,
    is_example,
    valid_from,
    valid_to,
    string_agg(int8send(gpu_id), ''::bytea) AS gpu_ids
FROM costs_gpurate
GROUP BY usd_per_gpu_hour, is_example, valid_from, valid_to
