-- One row: how busy a job's GPUs were in the hours that a period touches, as a mean over the time in which that was read (0 to 1), and the
--      most memory that one of them used on average in an hour or a part of it (bytes); NULL = not read; how many they were.
-- In:  job_ids; start_ms, end_ms.
-- Again: safe, it only reads. Places are those of ledger.policy.FIGURES.
SELECT
    job_id,
    sum(figures[2]) / nullif(sum(figures[1]), 0) AS active,
    max(figures[6] / nullif(figures[5], 0)) AS memory_bytes,
    count(DISTINCT gpu_id) AS gpus
FROM ledger_run
WHERE job_id = ANY(%(job_ids)s::bigint[])
  -- no cut is longer than an hour: by the index hour_runs_by_job
  AND cut_ms > %(start_ms)s::bigint - 3600000
  AND cut_ms < %(end_ms)s::bigint
  AND end_ms > %(start_ms)s::bigint
  AND start_ms < %(end_ms)s::bigint
GROUP BY job_id
