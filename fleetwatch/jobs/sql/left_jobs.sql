-- One row per job, of those named, that its nodes' scheduler names no longer: on every node that held it the scheduler answered `lag_ms`
-- or more after the job's hold there had ended.
-- In:  job_ids, lag_ms, schedulers (sources of allocations that are booked).
-- What no scheduler gave out may go on unseen, and where the scheduler did not answer since nothing is known: neither is among them.
SELECT allocation.job_id
FROM jobs_hold AS allocation
JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
LEFT JOIN jobs_answer AS answered
    ON answered.node_id = gpu.node_id AND answered.kind = allocation.source AND answered.ok
WHERE allocation.job_id = ANY(%(job_ids)s)
GROUP BY allocation.job_id
HAVING bool_and(
    allocation.source = ANY(%(schedulers)s)
    AND coalesce(upper(answered.asserted) >= upper(allocation.held) + %(lag_ms)s, isempty(allocation.held))
)
