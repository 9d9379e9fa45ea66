-- Gives records to jobs.
-- In:  records, jobs (NULL: it may not speak), by position; their keys' jobs are locked.
-- Again: safe.
UPDATE jobs_jobrecord AS record
SET job_id = given.job_id
FROM unnest(%(records)s::bigint[], %(jobs)s::bigint[]) AS given (record_id, job_id)
WHERE record.id = given.record_id
RETURNING record.id
