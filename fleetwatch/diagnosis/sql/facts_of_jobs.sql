-- One row: a job with what is asked of it while it is judged: since when it runs and how long it did (NULL: it goes on, or nobody said), what
--      it goes by (a line for its name and labels, and one for each of its processes), and of a run that failed soon how many such runs
--      of its user and name ended about when it did, itself with them (of others 0).
-- In:  job_ids; failed (states of runs that fell over by themselves), short_ms (a run that was as long came far), alike_ms (before and after
--      its end others count).
-- Again: safe, it only reads.
WITH job AS MATERIALIZED (
    SELECT *, end_ms - start_ms AS life_ms
    FROM jobs_job
    WHERE id = ANY(%(job_ids)s)
),
alike AS (
    SELECT job.id, count(*) AS failures
    FROM job
    JOIN jobs_job AS run
        ON  run."user" = job."user"
        AND run.name = job.name
        AND run.state = ANY(%(failed)s)
        AND run.end_ms BETWEEN job.end_ms - %(alike_ms)s AND job.end_ms + %(alike_ms)s
        AND run.end_ms < run.start_ms + %(short_ms)s
    WHERE job.state = ANY(%(failed)s)
      AND job.life_ms < %(short_ms)s
      AND job.name <> ''
    GROUP BY job.id
)
SELECT
    job.id,
    job.kind,
    job.start_ms,
    job.life_ms,
    concat_ws(
        E'\n',
        job.name || ' ' || COALESCE((SELECT string_agg(value, ' ') FROM jsonb_each_text(job.labels)), ''),
        (SELECT string_agg(DISTINCT process.name, E'\n') FROM jobs_gpuprocess AS process WHERE process.job_id = job.id)
    ) AS words,
    COALESCE(alike.failures, 0) AS failures
FROM job
LEFT JOIN alike ON alike.id = job.id
