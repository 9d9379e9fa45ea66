-- One row: the part of a run within an hour that overlaps the period, with its GPU time by state, in order of GPU and time.
-- In:  gpu_ids; start_ms, end_ms; job_id or NULL = whoever held it.
-- Again: safe, it only reads.
SELECT gpu_id, start_ms, end_ms, state_ms::text AS state_ms
FROM ledger_run
WHERE gpu_id = ANY(%(gpu_ids)s::bigint[])
  -- no part is longer than an hour: the index on (gpu, start) need not be read from the first day on
  AND start_ms > %(start_ms)s::bigint - 3600000
  AND start_ms < %(end_ms)s::bigint
  AND end_ms > %(start_ms)s::bigint
  AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
ORDER BY gpu_id, start_ms
