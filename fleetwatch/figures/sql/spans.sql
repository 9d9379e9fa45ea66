-- One row: GPU time of a node's day between two moments, packed as packed_spans.py reads it: of each GPU, holder and kind, which may be
--      there several times.
-- In:  start, end (timestamptz, cuts of the ledger); day_starts, day_ends (the zone's days that the interval touches, less those that are
--      known already); use_sums (whether sums of days can answer); moments, moved (moments.sql: arrays of one length); eras (its moments, each once);
--      steps (starts of days, or none: in which of them a row lies, from 0 on);
--      what is looked at, NULL = all: node_ids (nodes on which it may lie: of one job or GPU these are few), gpu_ids, job_id, states
--      (of entries; sums of days are read with all of theirs); of_gpus (whether GPUs are told apart: of days that are summed, else those of
--      one price are one, which stands for them); of_jobs (whether then holders are told apart: else nobody's).
-- Again: safe, it only reads. The tests on parameters are constants to the planner: it folds them away.
WITH calendar AS (
    SELECT * FROM unnest(%(day_starts)s::timestamptz[], %(day_ends)s::timestamptz[]) AS day (start, "end")
),
-- days of nodes whose sums lie in the interval, and still say what the entries say
current_day AS MATERIALIZED (
    SELECT current_sum.node_id, current_sum.start, current_sum.until, alike.digest IS NOT NULL AS is_alike
    FROM costs_current_sum AS current_sum
    LEFT JOIN (
        SELECT DISTINCT node_id, digest
        FROM costs_alike
        WHERE NOT %(of_gpus)s::boolean
          AND (%(node_ids)s::bigint[] IS NULL OR node_id = ANY(%(node_ids)s::bigint[]))
    ) AS alike ON alike.node_id = current_sum.node_id AND alike.digest = current_sum.alike
    WHERE %(use_sums)s::boolean
      AND (%(node_ids)s::bigint[] IS NULL OR current_sum.node_id = ANY(%(node_ids)s::bigint[]))
      AND current_sum.start = ANY(%(day_starts)s::timestamptz[])
      AND current_sum.start >= %(start)s::timestamptz
),
-- of these the zone's days (or what of one is over), under one price
summed AS MATERIALIZED (
    SELECT current_day.*
    FROM current_day
    JOIN calendar ON calendar.start = current_day.start
    WHERE current_day.until <= LEAST(calendar."end", %(end)s::timestamptz)
      AND NOT EXISTS (
          SELECT FROM unnest(%(moments)s::timestamptz[], %(moved)s::bigint[]) AS change (moment, node_id)
          WHERE change.moment > current_day.start AND change.moment < current_day.until
            AND (change.node_id IS NULL OR change.node_id = current_day.node_id)
      )
),
-- and what of each node's days is read from entries
open_part AS MATERIALIZED (
    SELECT
        node.id AS node_id,
        GREATEST(calendar.start, %(start)s::timestamptz, summed.until) AS start,
        LEAST(calendar."end", %(end)s::timestamptz) AS "end"
    FROM inventory_node AS node
    CROSS JOIN calendar
    LEFT JOIN summed ON summed.node_id = node.id AND summed.start = calendar.start
    WHERE (%(node_ids)s::bigint[] IS NULL OR node.id = ANY(%(node_ids)s::bigint[]))
      AND summed.until IS DISTINCT FROM LEAST(calendar."end", %(end)s::timestamptz)
      -- in days that were over before the first entry there is nothing to look for, node by node
      AND calendar."end" > (SELECT min(start) FROM ledger_entry)
)
SELECT open_part.node_id, told.step, told.era, NULL, told.spans
FROM open_part
-- each part by itself, by the index on (node, start): joined freely, few parts may cost a scan of the table. An entry each: to find
-- those of one GPU, holder and kind takes as long as all the rest.
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN cardinality(%(steps)s::timestamptz[]) = 0 THEN -1
             ELSE width_bucket(entry.start, %(steps)s::timestamptz[]) - 1 END AS step,
        CASE WHEN cardinality(%(eras)s::timestamptz[]) = 0 THEN 0
             ELSE width_bucket(entry.start, %(eras)s::timestamptz[]) END AS era,
        string_agg(
            costs_span(
                entry.gpu_id, entry.job_id, costs_kind(entry.state, entry.tier, entry.efficiency_source), entry.gpu_ms, entry.energy_j,
                CASE WHEN entry.energy_j IS NULL THEN 0 ELSE entry.gpu_ms END
            ),
            ''::bytea
        ) AS spans
    FROM ledger_entry AS entry
    WHERE entry.node_id = open_part.node_id
      AND entry.start >= open_part.start
      AND entry.start < open_part."end"
      AND (%(job_id)s::bigint IS NULL OR entry.job_id = %(job_id)s::bigint)
      AND (%(gpu_ids)s::bigint[] IS NULL OR entry.gpu_id = ANY(%(gpu_ids)s::bigint[]))
      AND (%(states)s::text[] IS NULL OR entry.state = ANY(%(states)s::text[]))
    -- mostly all of them are the same for all
    GROUP BY entry.node_id, 1, 2
) AS told
UNION ALL
SELECT
    summed.node_id,
    width_bucket(summed.start, %(steps)s::timestamptz[]) - 1,
    width_bucket(summed.start, %(eras)s::timestamptz[]),
    NULL,
    CASE WHEN summed.is_alike THEN COALESCE(kept.alike_spans, kept.spans) ELSE kept.spans END
FROM summed
JOIN (
    SELECT
        node_id,
        start,
        spans,
        CASE WHEN %(of_jobs)s::boolean THEN alike_spans ELSE COALESCE(total_spans, alike_spans) END AS alike_spans
    FROM costs_summedday
    WHERE start = ANY(%(day_starts)s::timestamptz[])
      AND start >= %(start)s::timestamptz
      AND (%(node_ids)s::bigint[] IS NULL OR node_id = ANY(%(node_ids)s::bigint[]))
    -- so these are read in their order, and looked up in the others: Postgres would take out each by the index
    OFFSET 0
) AS kept ON kept.node_id = summed.node_id AND kept.start = summed.start
