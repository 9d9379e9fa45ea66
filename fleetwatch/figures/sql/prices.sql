-- One row: a price and the GPUs that have it over [valid_from, valid_to) (NULL = from then on): their ids, packed.
-- In:  gpu_ids; start, end (timestamptz).
-- Again: safe, it only reads.
SELECT
    usd_per_gpu_hour,
    is_example,
    valid_from,
    valid_to,
    string_agg(int8send(gpu_id), ''::bytea) AS gpu_ids
FROM costs_gpurate
WHERE gpu_id = ANY(%(gpu_ids)s::bigint[])
  AND valid_from < %(end)s::timestamptz
  AND (valid_to IS NULL OR valid_to > %(start)s::timestamptz)
GROUP BY usd_per_gpu_hour, is_example, valid_from, valid_to
