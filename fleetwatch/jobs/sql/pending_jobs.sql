-- One row per cluster and partition in which jobs wait, as accounting said last: how many, the GPUs that they asked for, and since when
-- the first of them waits, in ms (NULL: not told).
-- In:  since_ms: of jobs that were submitted before it nobody knows any more.
-- An agent tells of jobs that hold something, so that these are in it only where `history` runs by the clock (docs/wire.md).
SELECT
    cluster,
    coalesce(labels ->> 'partition', ''),
    count(*),
    sum(CASE WHEN labels ->> 'requested_gpus' ~ '^[0-9]{1,6}$' THEN (labels ->> 'requested_gpus')::bigint ELSE 0 END)::bigint,
    min(submit_ms)
FROM jobs_job
WHERE state = 'PENDING'
  AND start_ms IS NULL
  AND submit_ms >= %(since_ms)s
GROUP BY 1, 2
ORDER BY 1, 2
