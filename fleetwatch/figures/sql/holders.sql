-- One row: jobs of one user, team, project and cost centre over [valid_from, valid_to) (NULL = always): their ids, packed.
-- In:  first_id, last_id (jobs with ids from the one to the other); job_ids (of these alone; NULL = all of them); by_user, by_team,
--      by_project, by_cost_centre, by_owner (any of the last three): what matters; the rest is NULL.
-- Again: safe, it only reads. A job that was deleted is in no row.
SELECT user_name, told.team_id, project, cost_centre, is_named, team.slug, team.name, valid_from, valid_to, job_ids
FROM (
    SELECT
        CASE WHEN %(by_user)s::boolean THEN "user" END AS user_name,
        CASE WHEN %(by_team)s::boolean THEN team_id END AS team_id,
        CASE WHEN %(by_project)s::boolean THEN project END AS project,
        CASE WHEN %(by_cost_centre)s::boolean THEN cost_centre END AS cost_centre,
        CASE WHEN %(by_owner)s::boolean THEN is_named END AS is_named,
        CASE WHEN %(by_owner)s::boolean THEN NULLIF(valid_from, '-infinity') END AS valid_from,
        CASE WHEN %(by_owner)s::boolean THEN NULLIF(valid_to, 'infinity') END AS valid_to,
        string_agg(int8send(job_id), ''::bytea) AS job_ids
    FROM costs_owned
    WHERE job_id BETWEEN %(first_id)s::bigint AND %(last_id)s::bigint
      AND (%(job_ids)s::bigint[] IS NULL OR job_id = ANY(%(job_ids)s::bigint[]))
    -- the last key is the same for all and of a type that has no order: so rows are hashed, where Postgres would sort every job by seven words
    GROUP BY 1, 2, 3, 4, 5, 6, 7, '0'::xid
) AS told
LEFT JOIN accounts_team AS team ON team.id = told.team_id
