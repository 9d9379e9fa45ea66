-- One row: a run of a recurring job (of a service one UTC day) with what of it was wasted, and its held time by cause, as JSON.
-- In:  since (date), today (date): of runs that are over and began since then; blind (causes whose time nobody saw: it is left out).
-- Again: safe, it only reads.
WITH day_sum AS (
    SELECT
        job_id,
        (start AT TIME ZONE 'UTC')::date AS day,
        cause,
        sum(held_ms) AS held_ms,
        sum(idle_certain_ms + idle_probable_ms + stalled_probable_ms + stalled_potential_ms + underused_ms) AS wasted_ms
    FROM diagnosis_causeentry
    WHERE start >= %(since)s::date::timestamp AT TIME ZONE 'UTC'
      AND start < %(today)s::date::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1, 2, 3
),
part AS (
    SELECT
        job.id AS job_id,
        job."user",
        job.name,
        CASE WHEN job.kind = 'service' THEN day_sum.day END AS run_day,
        day_sum.day,
        day_sum.cause,
        CASE WHEN job.kind <> 'service' THEN job.start_ms END AS start_ms,
        CASE WHEN job.kind <> 'service' THEN job.end_ms END AS end_ms,
        day_sum.held_ms,
        day_sum.wasted_ms
    FROM day_sum
    JOIN jobs_job AS job ON job.id = day_sum.job_id
    WHERE job."user" <> ''
      AND job.name <> ''
),
run AS (
    SELECT
        job_id,
        run_day,
        -- a job of which no scheduler told when it ran: the days in which it held something
        COALESCE(min(start_ms), (extract(epoch FROM min(day)::timestamp) * 1000)::bigint) AS start_ms,
        COALESCE(min(end_ms), (extract(epoch FROM (max(day) + 1)::timestamp) * 1000)::bigint) AS end_ms,
        run_day IS NULL AND min(end_ms) IS NULL AND max(day) >= %(today)s - 2 AS may_go_on
    FROM part
    GROUP BY job_id, run_day
),
-- how many GPUs a job holds its allocations say
size AS (
    SELECT job_id, count(DISTINCT gpu_id) AS gpus
    FROM jobs_allocation
    WHERE job_id IN (SELECT job_id FROM run WHERE run_day IS NULL)
    GROUP BY job_id
),
by_cause AS (
    SELECT
        part."user",
        part.name,
        size.gpus,
        part.job_id,
        part.run_day,
        run.start_ms,
        run.end_ms,
        part.cause,
        sum(part.held_ms)::bigint AS held_ms,
        sum(part.wasted_ms)::bigint AS wasted_ms
    FROM part
    JOIN run ON run.job_id = part.job_id AND run.run_day IS NOT DISTINCT FROM part.run_day
    LEFT JOIN size ON size.job_id = part.job_id
    WHERE NOT run.may_go_on
      AND run.start_ms >= extract(epoch FROM %(since)s::timestamp) * 1000
      AND run.end_ms <= extract(epoch FROM %(today)s::timestamp) * 1000
    GROUP BY part."user", part.name, part.job_id, part.run_day, size.gpus, run.start_ms, run.end_ms, part.cause
)
SELECT
    "user",
    name,
    gpus,
    job_id,
    start_ms,
    end_ms,
    COALESCE(sum(wasted_ms) FILTER (WHERE cause <> ALL(%(blind)s::text[])), 0)::bigint AS wasted_ms,
    COALESCE(jsonb_object_agg(cause, held_ms) FILTER (WHERE cause <> ALL(%(blind)s::text[])), '{}')::text AS held_by_cause
FROM by_cause
GROUP BY "user", name, gpus, job_id, run_day, start_ms, end_ms
ORDER BY job_id, run_day
