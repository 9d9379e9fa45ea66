-- One row per span of an allocation of the nodes' GPUs that overlaps [start_ms, end_ms), whole: by node, GPU and job, then by time.
-- In:  node_ids, start_ms, end_ms.
-- Again: reads only. What ended before is not looked at, however much of it there is (the index held_until).
WITH spans AS (
    SELECT
        allocation.node_id,
        allocation.id,
        allocation.gpu_id,
        allocation.job_id,
        job.kind,
        allocation.source,
        allocation.share,
        unnest(allocation.held) AS span
    FROM jobs_hold AS allocation
    JOIN jobs_job AS job ON job.id = allocation.job_id
    WHERE allocation.node_id = ANY(%(node_ids)s)
      AND allocation.until_ms > %(start_ms)s
      AND allocation.held && int8range(%(start_ms)s, %(end_ms)s)
)
SELECT
    node_id,
    id,
    gpu_id,
    job_id,
    kind,
    source,
    share,
    lower(span) AS low,
    upper(span) AS high
FROM spans
WHERE span && int8range(%(start_ms)s, %(end_ms)s)
ORDER BY
    node_id,
    gpu_id,
    job_id,
    source,
    share,
    id,
    low
