-- One row: jobs of one owner and name, and which of them have not ended.
-- In:  job_ids.
-- Again: safe, it only reads.
SELECT array_agg(id) AS jobs, coalesce(array_agg(id) FILTER (WHERE end_ms IS NULL), '{}') AS going_on
FROM jobs_job
WHERE id = ANY(%(job_ids)s::bigint[])
GROUP BY scheduler, cluster, "user", name
