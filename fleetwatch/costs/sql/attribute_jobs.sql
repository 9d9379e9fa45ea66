-- Makes the rows that say whose the time of some jobs is; one row per row that was written. Follows matching.sql, whose parameters it takes.
-- In:  beginning; closed_until (NULL = no month is closed); former (JSON array: job_id, team_id,
--      is_named: what jobs whose owner changed named before).
-- Again: safe, rows are replaced whole; what stands already is not written. All that lies before closed_until stays as it was.
, kept AS MATERIALIZED (
    SELECT
        attribution.job_id, attribution.valid_from, LEAST(attribution.valid_to, %(closed_until)s::timestamptz) AS valid_to,
        attribution.team_id, attribution.project, attribution.cost_centre, attribution.is_named,
        attribution.team_rule_id, attribution.project_rule_id, attribution.cost_centre_rule_id
    FROM costs_attribution AS attribution
    JOIN job ON job.id = attribution.job_id
    WHERE attribution.valid_from < %(closed_until)s::timestamptz
    UNION ALL
    SELECT
        job.id, %(beginning)s::timestamptz, %(closed_until)s::timestamptz,
        team.id, '', '', former.is_named, NULL, NULL, NULL
    FROM jsonb_to_recordset(%(former)s::jsonb) AS former (job_id bigint, team_id bigint, is_named boolean)
    JOIN job ON job.id = former.job_id
    LEFT JOIN accounts_team AS team ON team.id = former.team_id
    WHERE %(closed_until)s::timestamptz IS NOT NULL
      AND (former.team_id, former.is_named) IS DISTINCT FROM (job.team_id, job.is_named)
      AND NOT EXISTS (SELECT FROM costs_attribution WHERE job_id = job.id)
),
moment AS (
    SELECT job_id, valid_from AS at FROM matching
    UNION
    SELECT job_id, valid_to FROM matching WHERE valid_to IS NOT NULL
    UNION
    SELECT job_id, %(beginning)s::timestamptz FROM matching
    UNION
    SELECT job_id, %(closed_until)s::timestamptz FROM kept
),
part AS (
    SELECT job_id, at AS valid_from, lead(at) OVER (PARTITION BY job_id ORDER BY at) AS valid_to FROM moment
),
made AS (
    SELECT
        part.job_id, part.valid_from, part.valid_to,
        COALESCE((array_agg(matching.team_id ORDER BY place) FILTER (WHERE matching.team_id IS NOT NULL))[1], job.team_id) AS team_id,
        COALESCE((array_agg(matching.project ORDER BY place) FILTER (WHERE matching.project <> ''))[1], '') AS project,
        COALESCE((array_agg(matching.cost_centre ORDER BY place) FILTER (WHERE matching.cost_centre <> ''))[1], '') AS cost_centre,
        job.is_named,
        (array_agg(matching.rule_id ORDER BY place) FILTER (WHERE matching.team_id IS NOT NULL))[1] AS team_rule_id,
        (array_agg(matching.rule_id ORDER BY place) FILTER (WHERE matching.project <> ''))[1] AS project_rule_id,
        (array_agg(matching.rule_id ORDER BY place) FILTER (WHERE matching.cost_centre <> ''))[1] AS cost_centre_rule_id
    FROM part
    JOIN job ON job.id = part.job_id
    LEFT JOIN matching
        ON  matching.job_id = part.job_id
        AND matching.valid_from <= part.valid_from
        AND (matching.valid_to IS NULL OR matching.valid_to > part.valid_from)
    WHERE NOT EXISTS (SELECT FROM kept WHERE kept.job_id = part.job_id AND part.valid_from < %(closed_until)s::timestamptz)
    GROUP BY part.job_id, part.valid_from, part.valid_to, job.team_id, job.is_named
),
told AS (
    SELECT
        *,
        (team_id, project, cost_centre, is_named, team_rule_id, project_rule_id, cost_centre_rule_id) IS DISTINCT FROM
            lag((team_id, project, cost_centre, is_named, team_rule_id, project_rule_id, cost_centre_rule_id)) OVER a_job AS is_new
    FROM (SELECT * FROM kept UNION ALL SELECT * FROM made) AS both_parts
    WINDOW a_job AS (PARTITION BY job_id ORDER BY valid_from)
),
wanted AS MATERIALIZED (
    -- what follows in the same hands by the same rules is one row
    SELECT
        job_id, valid_from, lead(valid_from) OVER (PARTITION BY job_id ORDER BY valid_from) AS valid_to,
        team_id, project, cost_centre, is_named, team_rule_id, project_rule_id, cost_centre_rule_id
    FROM told
    WHERE is_new
),
gone AS (
    DELETE FROM costs_attribution AS standing
    USING job
    WHERE standing.job_id = job.id
      AND NOT EXISTS (SELECT FROM wanted WHERE wanted.job_id = standing.job_id AND wanted.valid_from = standing.valid_from)
)
INSERT INTO costs_attribution AS standing (
    job_id, valid_from, valid_to, team_id, project, cost_centre, is_named, team_rule_id, project_rule_id, cost_centre_rule_id
)
SELECT * FROM wanted
ON CONFLICT (job_id, valid_from) DO UPDATE SET
    valid_to = excluded.valid_to,
    team_id = excluded.team_id,
    project = excluded.project,
    cost_centre = excluded.cost_centre,
    is_named = excluded.is_named,
    team_rule_id = excluded.team_rule_id,
    project_rule_id = excluded.project_rule_id,
    cost_centre_rule_id = excluded.cost_centre_rule_id
WHERE (standing.valid_to, standing.team_id, standing.project, standing.cost_centre, standing.is_named)
    IS DISTINCT FROM (excluded.valid_to, excluded.team_id, excluded.project, excluded.cost_centre, excluded.is_named)
   OR (standing.team_rule_id, standing.project_rule_id, standing.cost_centre_rule_id)
    IS DISTINCT FROM (excluded.team_rule_id, excluded.project_rule_id, excluded.cost_centre_rule_id)
RETURNING standing.job_id
