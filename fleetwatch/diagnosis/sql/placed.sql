-- One row: a node's or a cluster's cause with its GPU time and dollars x milliseconds, in the columns of caused.sql.
-- In:  start, end (timestamptz, cuts of the ledger); slowed (the cause of nodes that CauseEntries tell); whole (causes all of whose time is waste);
--      finding (its id; NULL = every one).
-- Again: safe, it only reads.
WITH wanted AS MATERIALIZED (
    SELECT id, node_id, cluster, cause
    FROM diagnosis_finding
    WHERE job_id IS NULL
      AND (%(finding)s::bigint IS NULL OR id = %(finding)s::bigint)
),
part AS (
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
