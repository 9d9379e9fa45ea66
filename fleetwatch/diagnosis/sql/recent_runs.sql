-- One row: a job that has a name and an owner, and the runs of the same owner and name that had not ended before a moment (its own
--      among them).
-- In:  job_ids; since_ms.
-- Again: safe, it only reads.
SELECT asked.id, array_agg(run.id) AS runs
FROM jobs_job AS asked
JOIN jobs_job AS run
  ON run."user" = asked."user"
 AND run.name = asked.name
 AND run.scheduler = asked.scheduler
 AND run.cluster = asked.cluster
WHERE asked.id = ANY(%(job_ids)s::bigint[])
  AND asked."user" <> ''
  AND asked.name <> ''
  AND (run.end_ms IS NULL OR run.end_ms > %(since_ms)s)
GROUP BY asked.id
