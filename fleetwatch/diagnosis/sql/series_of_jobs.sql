-- One row: jobs of one owner and name, and which of them have not ended (NULL = none): ids, packed.
-- In:  job_ids.
-- Again: safe, it only reads.
SELECT string_agg(int8send(id), ''::bytea) AS jobs, string_agg(int8send(id), ''::bytea) FILTER (WHERE end_ms IS NULL) AS going_on
FROM jobs_job
WHERE id = ANY(%(job_ids)s::bigint[])
GROUP BY scheduler, cluster, "user", name
