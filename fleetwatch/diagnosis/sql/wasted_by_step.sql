-- One row: what a job wasted by a cause in one step of time, in milliseconds of GPU time.
-- In:  job_ids; steps (where each begins, ascending; they are numbered from 1 on); end (of the last).
-- Again: safe, it only reads.
SELECT
    job_id,
    cause,
    width_bucket(start, %(steps)s::timestamptz[]) AS step,
    sum(idle_certain_ms + idle_probable_ms + stalled_probable_ms + stalled_potential_ms + underused_ms)::bigint AS wasted_ms
FROM diagnosis_causeentry
WHERE job_id = ANY(%(job_ids)s::bigint[])
  AND start >= (%(steps)s::timestamptz[])[1]
  AND start < %(end)s::timestamptz
GROUP BY job_id, cause, step
