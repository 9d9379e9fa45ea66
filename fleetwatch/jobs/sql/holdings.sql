-- One row per span of an allocation of the nodes' GPUs that overlaps [start_ms, end_ms), whole: by node, GPU and job, then by time.
-- In:  node_ids, start_ms, end_ms.
-- Again: reads only.
SELECT
    gpu.node_id,
    allocation.id,
    allocation.gpu_id,
    allocation.job_id,
    job.kind,
    allocation.source,
    allocation.share,
    lower(span) AS low,
    upper(span) AS high
FROM inventory_gpu AS gpu
JOIN jobs_hold AS allocation ON allocation.gpu_id = gpu.id
JOIN jobs_job AS job ON job.id = allocation.job_id
CROSS JOIN LATERAL unnest(allocation.held) AS span
WHERE gpu.node_id = ANY(%(node_ids)s)
  AND allocation.held && int8range(%(start_ms)s, %(end_ms)s)
  AND span && int8range(%(start_ms)s, %(end_ms)s)
ORDER BY
    gpu.node_id,
    allocation.gpu_id,
    allocation.job_id,
    allocation.source,
    allocation.share,
    allocation.id,
    low
