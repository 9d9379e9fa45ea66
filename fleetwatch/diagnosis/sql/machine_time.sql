-- One row: GPU time of findings of machines (a node's or a cluster's) in a node's UTC day (or in a part of it) between two moments, packed as
--      cause_columns.py reads it (in no steps): of each GPU, job and finding. Of a cut of the ledger every entry is a span of its own.
-- In:  start, end (timestamptz, cuts of the ledger); eras (figures/sql/moments.sql: its moments, each once); finding_ids (a span's number is a
--      place among them, from 0 on); slowed (the cause of nodes that CauseEntries tell); wasted (causes all of whose time is waste).
-- Again: safe, it only reads.
WITH wanted AS MATERIALIZED (
    SELECT array_position(%(finding_ids)s::bigint[], id) - 1 AS place, node_id, cluster, cause
    FROM diagnosis_finding
    WHERE id = ANY(%(finding_ids)s::bigint[])
),
slowed_node AS MATERIALIZED (
    SELECT place, node_id FROM wanted WHERE cause = %(slowed)s
),
-- a node's and a cluster's apart: each by its own index
capacity AS (
    SELECT wanted.place, entry.*
    FROM wanted
    JOIN diagnosis_capacityentry AS entry ON entry.node_id = wanted.node_id AND entry.cause = wanted.cause AND entry.cluster = ''
    WHERE entry.start >= %(start)s AND entry.start < %(end)s
    UNION ALL
    SELECT wanted.place, entry.*
    FROM wanted
    JOIN diagnosis_capacityentry AS entry ON entry.cluster = wanted.cluster AND entry.cause = wanted.cause AND entry.cluster <> ''
    WHERE entry.start >= %(start)s AND entry.start < %(end)s
),
entry_of AS (
    SELECT
        entry.place, entry.node_id, entry.gpu_id, 0::bigint AS job_id, entry.start, 2::smallint AS confidence, entry.gpu_ms AS held_ms,
        -- what nobody's job holds is idle and certain, as far as waste goes
        CASE WHEN entry.cause = ANY(%(wasted)s::text[]) THEN entry.gpu_ms ELSE 0 END AS idle_certain_ms, 0::bigint AS idle_probable_ms,
        0::bigint AS stalled_probable_ms, 0::bigint AS stalled_potential_ms, 0::bigint AS underused_ms, entry.low_ms, entry.high_ms
    FROM capacity AS entry
    UNION ALL
    SELECT
        slowed_node.place, entry.node_id, entry.gpu_id, entry.job_id, entry.start, entry.confidence, entry.held_ms, entry.idle_certain_ms,
        entry.idle_probable_ms, entry.stalled_probable_ms, entry.stalled_potential_ms, entry.underused_ms, entry.low_ms, entry.high_ms
    FROM diagnosis_causeentry AS entry
    JOIN slowed_node USING (node_id)
    WHERE entry.start >= %(start)s AND entry.start < %(end)s
      AND entry.cause = %(slowed)s
),
part AS (
    SELECT
        node_id,
        date_trunc('day', start, 'UTC') AS day,
        width_bucket(start, %(eras)s::timestamptz[]) AS era,
        gpu_id,
        job_id,
        place,
        max(confidence) AS confidence,
        sum(held_ms) AS held_ms,
        sum(idle_certain_ms) AS idle_certain_ms,
        sum(idle_probable_ms) AS idle_probable_ms,
        sum(stalled_probable_ms) AS stalled_probable_ms,
        sum(stalled_potential_ms) AS stalled_potential_ms,
        sum(underused_ms) AS underused_ms,
        sum(low_ms) AS low_ms,
        sum(high_ms) AS high_ms
    FROM entry_of
    GROUP BY 1, 2, 3, 4, 5, 6
)
SELECT
    node_id,
    0 AS step,
    era,
    NULL,
    string_agg(
        diagnosis_span(
            gpu_id, job_id, place, confidence, held_ms, idle_certain_ms, idle_probable_ms, stalled_probable_ms, stalled_potential_ms,
            underused_ms, low_ms, high_ms
        ),
        ''::bytea
    ) AS spans
FROM part
GROUP BY node_id, day, era
