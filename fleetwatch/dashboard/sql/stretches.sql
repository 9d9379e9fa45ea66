-- One row: the parts of a GPU's runs within an hour that overlap the period, in order of time: their beginnings and ends, packed,
--      and the GPU time of each by state, as array_send packs it.
-- In:  gpu_ids; start_ms, end_ms; job_id or NULL = whoever held it.
-- Again: safe, it only reads.
SELECT
    gpu_id,
    string_agg(int8send(start_ms) || int8send(end_ms), ''::bytea ORDER BY start_ms) AS spans,
    string_agg(array_send(state_ms), ''::bytea ORDER BY start_ms) AS state_ms
FROM ledger_run
WHERE gpu_id = ANY(%(gpu_ids)s::bigint[])
  -- no part is longer than an hour: the index on (gpu, start) need not be read from the first day on
  AND start_ms > %(start_ms)s::bigint - 3600000
  AND start_ms < %(end_ms)s::bigint
  AND end_ms > %(start_ms)s::bigint
  AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
GROUP BY gpu_id
ORDER BY gpu_id
