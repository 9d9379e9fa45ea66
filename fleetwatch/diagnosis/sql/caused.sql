-- One row: causes of a node's UTC day (or of a part of it) between two moments, packed as cause_columns.py reads them: of each
--      step, GPU, job and cause; beside them the names of the causes that the numbers in them stand for, from 1 on, with commas.
-- In:  start, end (timestamptz, cuts of the ledger); days (the UTC days that the period touches); moments, moved (figures/sql/moments.sql:
--      arrays of one length); eras (its moments, each once);
--      steps (their starts, or none: in which of them an entry lies, from 0 on; sums of days lie in none); use_sums (whether sums of days can answer);
--      kept_days (days of whose summed nodes who asks has all that lies between the moments); of_summed (nothing of nodes of which the day is
--      not summed); is_current (only hours whose ledger did not change since they were diagnosed); what is looked at, NULL = all: node_ids
--      (nodes on which it may lie: of one job these are few), job_id, cause.
-- Again: safe, it only reads. The tests on parameters are constants to the planner: it folds them away.
WITH calendar AS (
    SELECT
        day,
        day::timestamp AT TIME ZONE 'UTC' AS start,
        (day + 1)::timestamp AT TIME ZONE 'UTC' AS "end"
    FROM unnest(%(days)s::date[]) AS calendar (day)
),
-- days of nodes of which sums can answer: whole, under one price and one owner, and summed since their causes changed; or kept
summed AS MATERIALIZED (
    SELECT diagnosed.id, diagnosed.node_id, diagnosed.day, calendar.start
    FROM diagnosis_diagnosedday AS diagnosed
    JOIN calendar ON calendar.day = diagnosed.day
    WHERE %(use_sums)s::boolean
      AND diagnosed.is_summed
      AND (%(node_ids)s::bigint[] IS NULL OR diagnosed.node_id = ANY(%(node_ids)s::bigint[]))
      AND (
          calendar.day = ANY(%(kept_days)s::date[])
          OR calendar.start >= %(start)s::timestamptz
          AND calendar."end" <= %(end)s::timestamptz
          AND NOT EXISTS (
              SELECT FROM unnest(%(moments)s::timestamptz[], %(moved)s::bigint[]) AS change (moment, node_id)
              WHERE change.moment > calendar.start AND change.moment < calendar."end"
                AND (change.node_id IS NULL OR change.node_id = diagnosed.node_id)
          )
      )
      AND (
          NOT %(is_current)s::boolean
          OR diagnosed.versions = (
              SELECT versions FROM ledger_nodeday AS posted WHERE posted.node_id = diagnosed.node_id AND posted.day = diagnosed.day
          )
      )
),
-- and what of each node's days is read from entries
open_part AS MATERIALIZED (
    SELECT
        node.id AS node_id,
        calendar.day,
        GREATEST(calendar.start, %(start)s::timestamptz) AS start,
        LEAST(calendar."end", %(end)s::timestamptz) AS "end",
        diagnosed.versions AS diagnosed,
        posted.versions AS posted
    FROM inventory_node AS node
    CROSS JOIN calendar
    LEFT JOIN summed ON summed.node_id = node.id AND summed.day = calendar.day
    LEFT JOIN diagnosis_diagnosedday AS diagnosed
        ON  (%(is_current)s::boolean OR %(of_summed)s::boolean)
        AND diagnosed.node_id = node.id
        AND diagnosed.day = calendar.day
    LEFT JOIN ledger_nodeday AS posted
        ON %(is_current)s::boolean AND posted.node_id = node.id AND posted.day = calendar.day
    WHERE summed.node_id IS NULL
      AND (NOT %(of_summed)s::boolean OR diagnosed.is_summed)
      AND (%(node_ids)s::bigint[] IS NULL OR node.id = ANY(%(node_ids)s::bigint[]))
),
part AS MATERIALIZED (
    SELECT
        entry.node_id,
        open_part.day,
        CASE WHEN cardinality(%(steps)s::timestamptz[]) = 0 THEN 0
             ELSE width_bucket(entry.start, %(steps)s::timestamptz[]) - 1 END AS step,
        CASE WHEN cardinality(%(eras)s::timestamptz[]) = 0 THEN 0
             ELSE width_bucket(entry.start, %(eras)s::timestamptz[]) END AS era,
        entry.gpu_id,
        entry.job_id,
        entry.cause,
        max(entry.confidence) AS confidence,
        sum(entry.held_ms::int) AS held_ms,
        sum(entry.idle_certain_ms::int) AS idle_certain_ms,
        sum(entry.idle_probable_ms::int) AS idle_probable_ms,
        sum(entry.stalled_probable_ms::int) AS stalled_probable_ms,
        sum(entry.stalled_potential_ms::int) AS stalled_potential_ms,
        sum(entry.underused_ms::int) AS underused_ms,
        sum(entry.low_ms::int) AS low_ms,
        sum(entry.high_ms::int) AS high_ms
    FROM open_part
    -- the fence, one that several databases know: each part by the index on (node, start)
    CROSS JOIN LATERAL (
        SELECT *, generate_series(1, 1) AS fence
        FROM diagnosis_causeentry
        WHERE node_id = open_part.node_id
          AND start >= open_part.start
          AND start < open_part."end"
    ) AS entry
    WHERE (%(job_id)s::bigint IS NULL OR entry.job_id = %(job_id)s::bigint)
      AND (%(cause)s::text IS NULL OR entry.cause = %(cause)s::text)
      AND (
          NOT %(is_current)s::boolean
          OR open_part.diagnosed[extract(hour FROM entry.start AT TIME ZONE 'UTC')::int + 1]
           = open_part.posted[extract(hour FROM entry.start AT TIME ZONE 'UTC')::int + 1]
      )
    GROUP BY 1, 2, 3, 4, 5, 6, 7
),
named AS MATERIALIZED (
    SELECT array_agg(cause ORDER BY cause) AS causes FROM (SELECT DISTINCT cause FROM part) AS one
)
SELECT
    part.node_id,
    part.step,
    part.era,
    array_to_string((SELECT causes FROM named), ',') AS causes,
    string_agg(
        diagnosis_span(
            gpu_id, job_id, array_position((SELECT causes FROM named), cause), confidence, held_ms, idle_certain_ms, idle_probable_ms, stalled_probable_ms,
            stalled_potential_ms, underused_ms, low_ms, high_ms
        ),
        ''::bytea
    ) AS spans
FROM part
GROUP BY part.node_id, part.day, part.step, part.era
UNION ALL
SELECT summed.node_id, 0, width_bucket(summed.start, %(eras)s::timestamptz[]), kept.causes, kept.spans
FROM summed
JOIN diagnosis_diagnosedday AS kept ON kept.id = summed.id
WHERE summed.day <> ALL(%(kept_days)s::date[])
