-- One row: a job and the moment from which on its time is one team's (NULL = nobody's), in order.
-- In:  job_ids; beginning (timestamptz, before any time of a job).
-- Again: safe, it only reads.
SELECT owned.job_id, GREATEST(owned.valid_from, %(beginning)s::timestamptz) AS valid_from, team.slug, owned.is_named
FROM costs_owned AS owned
LEFT JOIN accounts_team AS team ON team.id = owned.team_id
WHERE owned.job_id = ANY(%(job_ids)s::bigint[])
ORDER BY owned.job_id, owned.valid_from
