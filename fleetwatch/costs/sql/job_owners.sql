-- The view costs_owned: whose a job's time is. One row: a job and a span of time in which it
-- belongs to one team, project and cost centre. Spans of a job follow each other without gaps; a job for
-- which no rule speaks is its account's team's.
CREATE OR REPLACE VIEW costs_owned AS
SELECT
    job.id AS job_id,
    CASE WHEN attribution.id IS NULL THEN job.team_id ELSE attribution.team_id END AS team_id,
    COALESCE(attribution.project, '') AS project,
    COALESCE(attribution.cost_centre, '') AS cost_centre,
    COALESCE(attribution.is_named, job."user" <> '' OR job.account <> '') AS is_named,
    COALESCE(attribution.valid_from, '-infinity'::timestamptz) AS valid_from,
    COALESCE(attribution.valid_to, 'infinity'::timestamptz) AS valid_to,
    job."user"
FROM jobs_job AS job
LEFT JOIN costs_attribution AS attribution ON attribution.job_id = job.id
