-- One row: a physical GPU (a MIG instance's is its parent's), its model ("(none)": not known), a job, and a span in which the job held
-- it, cut at [start_ms, end_ms).
-- In:  start_ms, end_ms; count (at most so many rows).
-- Again: safe, it only reads.
SELECT
    coalesce(gpu.parent_id, gpu.id),
    coalesce(model.name, '(none)'),
    allocation.job_id,
    greatest(lower(span), %(start_ms)s),
    least(upper(span), %(end_ms)s)
FROM jobs_hold AS allocation
JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN inventory_gpumodel AS model ON model.id = coalesce(parent.model_id, gpu.model_id)
CROSS JOIN LATERAL unnest(allocation.held) AS span
WHERE allocation.held && int8range(%(start_ms)s, %(end_ms)s)
  AND span && int8range(%(start_ms)s, %(end_ms)s)
LIMIT %(count)s
