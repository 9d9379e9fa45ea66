-- One row: how busy a job's GPUs were in the hours that a period touches, as a mean over the time in which that was read (0 to 1), and the
--      most memory that one of them used on average in an hour or a part of it (bytes); NULL = not read; how many they were.
-- In:  job_ids; start_ms, end_ms.
-- Again: safe, it only reads. Places are those of ledger.policy.FIGURES: each part has 8 figures, after those of the parts before it.
SELECT
    hour.job_id,
    sum(hour.figures[8 * part - 6]) / nullif(sum(hour.figures[8 * part - 7]), 0) AS active,
    max(hour.figures[8 * part - 2] / nullif(hour.figures[8 * part - 3], 0)) AS memory_bytes,
    count(DISTINCT hour.gpu_id) AS gpus
-- not by the view ledger_run, which unpacks all columns of each part: three times the work
FROM ledger_hourruns AS hour
CROSS JOIN LATERAL generate_series(1, cardinality(hour.ends)) AS part
WHERE hour.job_id = ANY(%(job_ids)s::bigint[])
  -- no cut is longer than an hour: by the index hour_runs_by_job
  AND hour.cut_ms > %(start_ms)s::bigint - 3600000
  AND hour.cut_ms < %(end_ms)s::bigint
  AND hour.cut_ms + hour.ends[part] > %(start_ms)s::bigint
  AND hour.cut_ms + hour.begins[part] < %(end_ms)s::bigint
GROUP BY hour.job_id
