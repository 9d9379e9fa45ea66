-- One row: a node's or a cluster's cause with its GPU time and dollars x milliseconds, in the columns of caused.sql.
-- In:  start, end (timestamptz, cuts of the ledger); slowed (the cause of nodes that CauseEntries tell); whole (causes all of whose time is waste);
--      finding (its id; NULL = every one). Of cuts of which the period takes a part: edge_starts, edge_parts, edge_wholes (ms of the part
--      and of the cut), and clip_starts, clip_gpus, clip_causes, clip_parts, clip_wholes (of these GPUs the ledger's time that the cause
--      explains there, in the part and in the cut): arrays.
-- Again: safe, it only reads.
WITH wanted AS MATERIALIZED (
    SELECT id, node_id, cluster, cause
    FROM diagnosis_finding
    WHERE job_id IS NULL
      AND (%(finding)s::bigint IS NULL OR id = %(finding)s::bigint)
),
edge AS MATERIALIZED (
    SELECT start, part_ms, whole_ms
    FROM unnest(%(edge_starts)s::timestamptz[], %(edge_parts)s::bigint[], %(edge_wholes)s::bigint[]) AS edge (start, part_ms, whole_ms)
),
clip AS MATERIALIZED (
    SELECT start, gpu_id, cause, part_ms, whole_ms
    FROM unnest(
        %(clip_starts)s::timestamptz[], %(clip_gpus)s::bigint[], %(clip_causes)s::text[], %(clip_parts)s::bigint[],
        %(clip_wholes)s::bigint[]
    ) AS clip (start, gpu_id, cause, part_ms, whole_ms)
),
entry_of AS (
    SELECT
        wanted.id, entry.gpu_id, entry.start, 2 AS confidence, entry.gpu_ms AS held_ms,
        -- what nobody's job holds is idle and certain, as far as waste goes
        CASE WHEN entry.cause = ANY(%(whole)s::text[]) THEN entry.gpu_ms ELSE 0 END AS idle_certain_ms, 0::bigint AS idle_probable_ms,
        0::bigint AS stalled_probable_ms, 0::bigint AS stalled_potential_ms, 0::bigint AS underused_ms, entry.low_ms, entry.high_ms
    FROM diagnosis_capacityentry AS entry
    JOIN wanted
        ON  wanted.cause = entry.cause
        AND wanted.cluster = entry.cluster
        AND (wanted.cluster <> '' OR wanted.node_id = entry.node_id)
    WHERE entry.start >= %(start)s AND entry.start < %(end)s
    UNION ALL
    SELECT
        wanted.id, entry.gpu_id, entry.start, entry.confidence, entry.held_ms, entry.idle_certain_ms, entry.idle_probable_ms,
        entry.stalled_probable_ms, entry.stalled_potential_ms, entry.underused_ms, entry.low_ms, entry.high_ms
    FROM diagnosis_causeentry AS entry
    JOIN wanted ON wanted.node_id = entry.node_id AND wanted.cause = entry.cause
    WHERE entry.start >= %(start)s AND entry.start < %(end)s
      AND entry.cause = %(slowed)s
),
part AS (
    SELECT
        entry_of.id, entry_of.gpu_id, entry_of.start, entry_of.confidence,
        entry_of.held_ms * taken.part_ms / taken.whole_ms AS held_ms,
        entry_of.idle_certain_ms * taken.part_ms / taken.whole_ms AS idle_certain_ms,
        entry_of.idle_probable_ms * taken.part_ms / taken.whole_ms AS idle_probable_ms,
        entry_of.stalled_probable_ms * taken.part_ms / taken.whole_ms AS stalled_probable_ms,
        entry_of.stalled_potential_ms * taken.part_ms / taken.whole_ms AS stalled_potential_ms,
        entry_of.underused_ms * taken.part_ms / taken.whole_ms AS underused_ms,
        entry_of.low_ms * taken.part_ms / taken.whole_ms AS low_ms,
        entry_of.high_ms * taken.part_ms / taken.whole_ms AS high_ms
    FROM entry_of
    JOIN wanted ON wanted.id = entry_of.id
    LEFT JOIN edge ON edge.start = entry_of.start
    LEFT JOIN clip ON clip.start = entry_of.start AND clip.gpu_id = entry_of.gpu_id AND clip.cause = wanted.cause
    CROSS JOIN LATERAL (
        SELECT COALESCE(clip.part_ms, edge.part_ms, 1) AS part_ms, COALESCE(clip.whole_ms, edge.whole_ms, 1) AS whole_ms
    ) AS taken
    WHERE taken.part_ms > 0
)
SELECT
    part.id,
    count(DISTINCT part.gpu_id) AS gpus,
    max(part.confidence),
    sum(part.held_ms)::bigint,
    sum(part.idle_certain_ms)::bigint,
    sum(part.idle_probable_ms)::bigint,
    sum(part.stalled_probable_ms)::bigint,
    sum(part.stalled_potential_ms)::bigint,
    sum(part.underused_ms)::bigint,
    sum(part.low_ms)::bigint,
    sum(part.high_ms)::bigint,
    sum(part.held_ms * rate.usd_per_gpu_hour),
    sum(part.idle_certain_ms * rate.usd_per_gpu_hour),
    sum(part.idle_probable_ms * rate.usd_per_gpu_hour),
    sum(part.stalled_probable_ms * rate.usd_per_gpu_hour),
    sum(part.stalled_potential_ms * rate.usd_per_gpu_hour),
    sum(part.underused_ms * rate.usd_per_gpu_hour),
    sum(part.low_ms * rate.usd_per_gpu_hour),
    sum(part.high_ms * rate.usd_per_gpu_hour),
    COALESCE(sum(part.held_ms) FILTER (WHERE rate.usd_per_gpu_hour IS NULL), 0)::bigint AS unpriced_ms,
    COALESCE(bool_or(rate.is_example), FALSE) AS is_example
FROM part
LEFT JOIN costs_gpurate AS rate
    ON  rate.gpu_id = part.gpu_id
    AND rate.valid_from <= part.start
    AND (rate.valid_to IS NULL OR rate.valid_to > part.start)
GROUP BY part.id
