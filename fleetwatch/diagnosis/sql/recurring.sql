-- One row: a job and a cause, where enough runs of its owner and name lost time to the cause since a moment.
-- In:  job_ids, causes (of each job its cause); since_ms; times.
-- Again: safe, it only reads.
WITH asked AS MATERIALIZED (
    SELECT asked.job_id, asked.cause, job."user", job.name, job.scheduler, job.cluster
    FROM unnest(%(job_ids)s::bigint[], %(causes)s::text[]) AS asked (job_id, cause)
    -- the fences: by indexes, however many jobs there are
    CROSS JOIN LATERAL (SELECT * FROM jobs_job WHERE id = asked.job_id OFFSET 0) AS job
    WHERE job."user" <> ''
      AND job.name <> ''
),
-- of most there are too few runs: none of their findings is looked up
series AS MATERIALIZED (
    SELECT one."user", one.name, one.scheduler, one.cluster, array_agg(run.id) AS runs
    FROM (SELECT DISTINCT "user", name, scheduler, cluster FROM asked) AS one
    CROSS JOIN LATERAL (
        SELECT id
        FROM jobs_job
        WHERE "user" = one."user"
          AND name = one.name
          AND scheduler = one.scheduler
          AND cluster = one.cluster
          AND (end_ms IS NULL OR end_ms > %(since_ms)s::bigint)
        OFFSET 0
    ) AS run
    GROUP BY one."user", one.name, one.scheduler, one.cluster
    HAVING count(*) >= %(times)s::int
)
SELECT asked.job_id, asked.cause
FROM asked
JOIN series USING ("user", name, scheduler, cluster)
WHERE (
    SELECT count(*)
    FROM (
        SELECT
        FROM diagnosis_finding AS finding
        WHERE finding.job_id = ANY(series.runs)
          AND finding.cause = asked.cause
          AND finding.last_ms > %(since_ms)s::bigint
        LIMIT %(times)s::int
    ) AS lost
) >= %(times)s::int
