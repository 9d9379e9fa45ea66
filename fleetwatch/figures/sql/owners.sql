-- One row: jobs of one user, team, project and cost centre over [valid_from, valid_to) (NULL = always): their ids, packed.
-- In:  job_ids (NULL = all jobs).
-- Again: safe, it only reads. A job that was deleted is in no row.
SELECT
    "user", team_id, project, cost_centre, is_named,
    NULLIF(valid_from, '-infinity') AS valid_from, NULLIF(valid_to, 'infinity') AS valid_to,
    string_agg(int8send(job_id), ''::bytea) AS job_ids
FROM costs_owned
WHERE %(job_ids)s::bigint[] IS NULL
   OR job_id = ANY(%(job_ids)s::bigint[])
-- the last key is the same for all and of a type that has no order: so rows are hashed, where Postgres would sort every job by seven words
GROUP BY 1, 2, 3, 4, 5, 6, 7, '0'::xid
