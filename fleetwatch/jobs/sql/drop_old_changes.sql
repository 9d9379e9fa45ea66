-- Of each given job only the newest changes are kept.
-- In:  jobs (bigint[]), kept (how many of one job).
-- Again: safe.
DELETE FROM jobs_jobchange AS change
USING (
    SELECT id, row_number() OVER (PARTITION BY job_id ORDER BY id DESC) AS place
    FROM jobs_jobchange
    WHERE job_id = ANY(%(jobs)s)
) AS counted
WHERE change.id = counted.id
  AND counted.place > %(kept)s
