-- One row: a cause (and job, by finding) with its GPU time and dollars x milliseconds; every figure of a cause is a sum of these.
-- In:  start, end (timestamptz, cuts of the ledger); days (the UTC days that the period touches); moments (moments.sql);
--      by_job (a row per job and cause, else per cause), is_saving (only those that could save anything), by_owner (whether whose it was matters), is_current (only hours whose
--      ledger did not change since they were diagnosed); what is looked at, NULL = all: node_id, gpu_model_id, has_gpu_model,
--      job_id, job_ids, user_name, team_id, has_team, project, cost_centre ("" = none), is_named, cause.
-- Again: safe, it only reads.
WITH calendar AS (
    SELECT
        day,
        day::timestamp AT TIME ZONE 'UTC' AS start,
        (day + 1)::timestamp AT TIME ZONE 'UTC' AS "end"
    FROM unnest(%(days)s::date[]) AS calendar (day)
),
alike AS MATERIALIZED (
    SELECT gpu_id, node_id, stands_for_id, digest FROM costs_alike
),
-- days of nodes of which sums can answer: whole, under one rate and one owner, and summed since their causes changed
summed AS MATERIALIZED (
    SELECT diagnosed.node_id, diagnosed.day
    FROM diagnosis_diagnosedday AS diagnosed
    JOIN calendar ON calendar.day = diagnosed.day
    JOIN (SELECT DISTINCT node_id, digest FROM alike) AS group_of ON group_of.node_id = diagnosed.node_id AND group_of.digest = diagnosed.alike
    WHERE diagnosed.is_summed
      AND calendar.start >= %(start)s
      AND calendar."end" <= %(end)s
      AND NOT EXISTS (
          SELECT FROM unnest(%(moments)s::timestamptz[]) AS moment WHERE moment > calendar.start AND moment < calendar."end"
      )
      AND (
          NOT %(is_current)s::boolean
          OR diagnosed.versions = (SELECT versions FROM ledger_nodeday AS posted WHERE posted.node_id = diagnosed.node_id AND posted.day = diagnosed.day)
      )
),
open_part AS MATERIALIZED (
    SELECT
        node.id AS node_id,
        GREATEST(calendar.start, %(start)s) AS start,
        LEAST(calendar."end", %(end)s) AS "end",
        diagnosed.versions AS diagnosed,
        posted.versions AS posted
    FROM inventory_node AS node
    CROSS JOIN calendar
    LEFT JOIN summed ON summed.node_id = node.id AND summed.day = calendar.day
    LEFT JOIN diagnosis_diagnosedday AS diagnosed ON diagnosed.node_id = node.id AND diagnosed.day = calendar.day
    LEFT JOIN ledger_nodeday AS posted ON posted.node_id = node.id AND posted.day = calendar.day
    WHERE summed.node_id IS NULL
      AND (%(node_id)s::bigint IS NULL OR node.id = %(node_id)s::bigint)
),
part AS (
    SELECT
        entry.node_id, alike.stands_for_id AS gpu_id, entry.job_id, entry.start, entry.cause, entry.confidence, entry.held_ms, entry.idle_certain_ms,
        entry.idle_probable_ms, entry.stalled_probable_ms, entry.stalled_potential_ms, entry.underused_ms, entry.low_ms, entry.high_ms
    FROM open_part
    -- OFFSET 0: each part by the index on (node, start)
    CROSS JOIN LATERAL (
        SELECT *
        FROM diagnosis_causeentry
        WHERE node_id = open_part.node_id
          AND start >= open_part.start
          AND start < open_part."end"
        OFFSET 0
    ) AS entry
    JOIN alike ON alike.gpu_id = entry.gpu_id
    WHERE NOT %(is_current)s::boolean
       OR open_part.diagnosed[extract(hour FROM entry.start AT TIME ZONE 'UTC')::int + 1]
        = open_part.posted[extract(hour FROM entry.start AT TIME ZONE 'UTC')::int + 1]
    UNION ALL
    SELECT
        day_sum.node_id, day_sum.gpu_id, day_sum.job_id, day_sum.day::timestamp AT TIME ZONE 'UTC', day_sum.cause, day_sum.confidence,
        day_sum.held_ms, day_sum.idle_certain_ms, day_sum.idle_probable_ms, day_sum.stalled_probable_ms, day_sum.stalled_potential_ms,
        day_sum.underused_ms, day_sum.low_ms, day_sum.high_ms
    FROM summed
    JOIN diagnosis_causeday AS day_sum ON day_sum.node_id = summed.node_id AND day_sum.day = summed.day
),
-- time is summed before it is priced: between two moments a GPU has one rate and a job one owner
span AS MATERIALIZED (
    SELECT
        part.gpu_id,
        CASE
            WHEN %(by_job)s::boolean OR %(by_owner)s::boolean OR %(user_name)s::text IS NOT NULL THEN part.job_id
        END AS job_id,
        part.cause,
        width_bucket(part.start, %(moments)s::timestamptz[]) AS era,
        min(part.start) AS moment,
        max(part.confidence) AS confidence,
        sum(part.held_ms)::bigint AS held_ms,
        sum(part.idle_certain_ms)::bigint AS idle_certain_ms,
        sum(part.idle_probable_ms)::bigint AS idle_probable_ms,
        sum(part.stalled_probable_ms)::bigint AS stalled_probable_ms,
        sum(part.stalled_potential_ms)::bigint AS stalled_potential_ms,
        sum(part.underused_ms)::bigint AS underused_ms,
        sum(part.low_ms)::bigint AS low_ms,
        sum(part.high_ms)::bigint AS high_ms
    FROM part
    WHERE (%(node_id)s::bigint IS NULL OR part.node_id = %(node_id)s::bigint)
      AND (%(job_id)s::bigint IS NULL OR part.job_id = %(job_id)s::bigint)
      AND (%(job_ids)s::bigint[] IS NULL OR part.job_id = ANY(%(job_ids)s::bigint[]))
      AND (%(cause)s::text IS NULL OR part.cause = %(cause)s::text)
    GROUP BY 1, 2, 3, 4
)
SELECT
    CASE WHEN %(by_job)s::boolean THEN span.job_id END AS job_id,
    span.cause,
    max(span.confidence) AS confidence,
    sum(span.held_ms)::bigint,
    sum(span.idle_certain_ms)::bigint,
    sum(span.idle_probable_ms)::bigint,
    sum(span.stalled_probable_ms)::bigint,
    sum(span.stalled_potential_ms)::bigint,
    sum(span.underused_ms)::bigint,
    sum(span.low_ms)::bigint,
    sum(span.high_ms)::bigint,
    sum(span.held_ms * rate.usd_per_gpu_hour),
    sum(span.idle_certain_ms * rate.usd_per_gpu_hour),
    sum(span.idle_probable_ms * rate.usd_per_gpu_hour),
    sum(span.stalled_probable_ms * rate.usd_per_gpu_hour),
    sum(span.stalled_potential_ms * rate.usd_per_gpu_hour),
    sum(span.underused_ms * rate.usd_per_gpu_hour),
    sum(span.low_ms * rate.usd_per_gpu_hour),
    sum(span.high_ms * rate.usd_per_gpu_hour),
    COALESCE(
        sum(span.idle_certain_ms + span.idle_probable_ms + span.stalled_probable_ms + span.stalled_potential_ms + span.underused_ms)
            FILTER (WHERE rate.usd_per_gpu_hour IS NULL),
        0
    )::bigint AS unpriced_ms,
    COALESCE(bool_or(rate.is_example), FALSE) AS is_example
FROM span
JOIN inventory_gpu AS gpu ON gpu.id = span.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN jobs_job AS job ON job.id = span.job_id
LEFT JOIN costs_owned AS owned
    ON  %(by_owner)s::boolean
    AND owned.job_id = span.job_id
    AND owned.valid_from <= span.moment
    AND owned.valid_to > span.moment
LEFT JOIN costs_gpurate AS rate
    ON  rate.gpu_id = span.gpu_id
    AND rate.valid_from <= span.moment
    AND (rate.valid_to IS NULL OR rate.valid_to > span.moment)
WHERE (%(gpu_model_id)s::bigint IS NULL OR COALESCE(parent.model_id, gpu.model_id) = %(gpu_model_id)s::bigint)
  AND (%(has_gpu_model)s::boolean IS NULL OR (COALESCE(parent.model_id, gpu.model_id) IS NOT NULL) = %(has_gpu_model)s::boolean)
  AND (%(team_id)s::bigint IS NULL OR owned.team_id = %(team_id)s::bigint)
  AND (%(has_team)s::boolean IS NULL OR (owned.team_id IS NOT NULL) = %(has_team)s::boolean)
  AND (%(project)s::text IS NULL OR owned.project = %(project)s::text)
  AND (%(cost_centre)s::text IS NULL OR owned.cost_centre = %(cost_centre)s::text)
  AND (%(is_named)s::boolean IS NULL OR owned.is_named = %(is_named)s::boolean)
  AND (%(user_name)s::text IS NULL OR job."user" = %(user_name)s::text)
GROUP BY 1, 2
HAVING NOT %(is_saving)s::boolean OR sum(span.high_ms) > 0
