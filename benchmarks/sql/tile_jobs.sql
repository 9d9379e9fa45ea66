-- One row per job of the posted day, again so many days earlier: under another key, with the name, user and team of another of the day's jobs.
-- In:  tile_job (tile_source.sql), shift_days, step (how many places users move on).
-- Again: safe; a key that is there is left alone.
INSERT INTO jobs_job (
    key, scheduler, cluster, external_id, name, "user", account, team_id, kind, state, submit_ms, start_ms, end_ms, restarts, labels
)
WITH shift AS (
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
    held.labels
FROM tile_job AS held
CROSS JOIN shift
JOIN tile_job AS other ON other.place = (held.place + %(step)s) %% held.jobs
ON CONFLICT (key) DO NOTHING
