-- One row: a job and a cause, where enough runs of its owner and name lost time to the cause since a moment.
-- In:  job_ids, causes (of each job its cause); since; times.
-- Again: safe, it only reads.
SELECT asked.job_id, asked.cause
FROM unnest(%(job_ids)s::bigint[], %(causes)s::text[]) AS asked (job_id, cause)
JOIN jobs_job AS job
  ON job.id = asked.job_id
JOIN jobs_job AS run
  ON run."user" = job."user"
 AND run.name = job.name
 AND run.scheduler = job.scheduler
 AND run.cluster = job.cluster
JOIN diagnosis_causeentry AS entry
  ON entry.job_id = run.id
 AND entry.cause = asked.cause
 AND entry.start >= %(since)s::timestamptz
WHERE job."user" <> ''
  AND job.name <> ''
GROUP BY asked.job_id, asked.cause
HAVING count(DISTINCT run.id) >= %(times)s::int
