-- The beginning of attribute_jobs.sql and touched_jobs.sql, no statement of its own: which rules match which jobs.
-- One row of matching: a job and a rule of which it is all that the rule asks, whenever that holds.
-- In:  job_ids (NULL = all jobs); rules (JSON array: place, id, patterns of LIKE or NULL, team_id, project, cost_centre,
--      valid_from, valid_to).
-- Again: safe, it only reads.
WITH rule AS MATERIALIZED (
    SELECT *
    FROM jsonb_to_recordset(%(rules)s::jsonb) AS rule (
        place integer, id bigint, "user" text, account text, namespace text, partition text, label text, label_value text,
        team_id bigint, project text, cost_centre text, valid_from timestamptz, valid_to timestamptz
    )
),
job AS MATERIALIZED (
    SELECT * FROM costs_asked WHERE %(job_ids)s::bigint[] IS NULL OR id = ANY(%(job_ids)s::bigint[])
),
matching AS MATERIALIZED (
    -- what a job does not name is NULL and matches no pattern, not even *
    SELECT
        job.id AS job_id, rule.id AS rule_id, rule.place, rule.valid_from, rule.valid_to,
        rule.team_id, rule.project, rule.cost_centre
    FROM job
    JOIN rule
        ON  (rule."user" IS NULL OR job."user" LIKE rule."user")
        AND (rule.account IS NULL OR job.account LIKE rule.account)
        AND (rule.namespace IS NULL OR job.namespace LIKE rule.namespace)
        AND (rule.partition IS NULL OR job.partition LIKE rule.partition)
        AND (rule.label IS NULL OR job.labels ->> rule.label LIKE rule.label_value)
)
