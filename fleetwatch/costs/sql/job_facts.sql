-- The view costs_asked: what mapping rules see of a job. One row: a job; NULL where it names
-- nothing. Kubernetes names a job namespace/pod; others may say a namespace by a label.
CREATE OR REPLACE VIEW costs_asked AS
SELECT
    id,
    NULLIF("user", '') AS "user",
    NULLIF(account, '') AS account,
    CASE
        WHEN scheduler = 'kubernetes' THEN NULLIF(split_part(name, '/', 1), '')
        ELSE labels ->> 'namespace'
    END AS namespace,
    labels ->> 'partition' AS partition,
    labels,
    team_id,
    "user" <> '' OR account <> '' AS is_named
FROM jobs_job
