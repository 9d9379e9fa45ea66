-- One row per given job: its id. Its facts are those given from now on.
-- In:  jobs (JSON array, one object per job with its id), locked before.
-- Again: safe.
UPDATE jobs_job AS job
SET scheduler = given.scheduler,
    cluster = given.cluster,
    external_id = given.external_id,
    name = given.name,
    "user" = given."user",
    account = given.account,
    team_id = given.team_id,
    kind = given.kind,
    state = given.state,
    submit_ms = given.submit_ms,
    start_ms = given.start_ms,
    end_ms = given.end_ms,
    restarts = given.restarts,
    labels = given.labels
FROM jsonb_to_recordset(%(jobs)s::jsonb) AS given (
    id bigint, scheduler text, cluster text, external_id text, name text, "user" text, account text, team_id bigint, kind text, state text,
    submit_ms bigint, start_ms bigint, end_ms bigint, restarts integer, labels jsonb
)
WHERE job.id = given.id
RETURNING job.id
