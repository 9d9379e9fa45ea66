-- One row per job that ended as a GPU that it held failed.
-- In:  job_ids (NULL: of all), start_ms, end_ms (when it ended, half-open), near_ms (how far the
--      fault and the end may lie apart), silent_ms (for how long the GPU may have said nothing of the
--      job before: who left it for another was not ended by it). What its node's batches repeat is
--      held to now. A MIG instance is its GPU; a drain is no fault.
-- Again: safe, it only reads.
SELECT DISTINCT job.id
FROM ledger_posted AS posted
CROSS JOIN LATERAL jsonb_array_elements(posted.outages) AS outage
JOIN inventory_gpu AS gpu ON COALESCE(gpu.parent_id, gpu.id) = posted.gpu_id
JOIN jobs_allocation AS allocation ON allocation.gpu_id = gpu.id
JOIN jobs_job AS job ON job.id = allocation.job_id
WHERE posted.outages <> '[]'
  AND outage ->> 2 <> %(drained)s
  AND job.end_ms >= %(start_ms)s
  AND job.end_ms < %(end_ms)s
  AND job.end_ms BETWEEN (outage ->> 0)::bigint - %(near_ms)s
                     AND (outage ->> 0)::bigint + %(near_ms)s
  AND (
    allocation.repeated_from_ms IS NOT NULL
    OR upper(allocation.held) >= (outage ->> 0)::bigint - %(silent_ms)s
  )
  AND (%(job_ids)s::bigint[] IS NULL OR job.id = ANY(%(job_ids)s::bigint[]))
