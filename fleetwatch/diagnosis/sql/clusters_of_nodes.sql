-- One row: a node and the cluster whose scheduler its newest job came from; a node without such a job of late has none.
-- In:  start_ms, end_ms: jobs that held one of its GPUs in between.
-- Again: safe, it only reads.
SELECT DISTINCT ON (gpu.node_id) gpu.node_id, job.cluster
FROM jobs_hold AS allocation
JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
JOIN jobs_job AS job ON job.id = allocation.job_id
WHERE allocation.held && int8range(%(start_ms)s, %(end_ms)s)
  AND job.cluster <> ''
ORDER BY gpu.node_id, upper(allocation.held) DESC, job.id DESC
