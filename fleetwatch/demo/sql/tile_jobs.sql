-- One row per job of the posted day, again so many days earlier: under another key, with the name, user and team of another of the day's jobs.
-- In:  source_start, source_end (timestamptz, the posted day), shift_days, step (how many places users move on).
-- Again: safe; a key that is there is left alone.
INSERT INTO jobs_job (
    key, scheduler, cluster, external_id, name, "user", account, team_id, kind, state, submit_ms, start_ms, end_ms, restarts, labels, facts_order
)
WITH held AS (
    SELECT job.*, row_number() OVER (ORDER BY job.id) - 1 AS place, count(*) OVER () AS jobs
    FROM jobs_job AS job
    WHERE job.id IN (
        SELECT job_id FROM ledger_entry WHERE start >= %(source_start)s AND start < %(source_end)s AND job_id IS NOT NULL
    )
), shift AS (
    SELECT %(shift_days)s::bigint * 86400000 AS ms
)
SELECT
    held.key || '-' || %(shift_days)s,
    held.scheduler,
    held.cluster,
    held.external_id || '-' || %(shift_days)s,
    other.name,
    other."user",
    other.account,
    other.team_id,
    held.kind,
    'COMPLETED',
    held.submit_ms - shift.ms,
    held.start_ms - shift.ms,
    held.end_ms - shift.ms,
    held.restarts,
    held.labels,
    held.facts_order
FROM held
CROSS JOIN shift
JOIN held AS other ON other.place = (held.place + %(step)s) %% held.jobs
ON CONFLICT (key) DO NOTHING
