-- One row: a node's GPU time in one cut of the ledger, packed as packed_spans.py reads it: of each GPU, holder and kind; and, packed as edges.py
--      reads them, the parts of its runs that lie in the cut and not wholly in the part of it that is asked for.
-- In:  cuts (where each begins); start_ms, end_ms (of each cut), part_start_ms, part_end_ms (what of it is asked for): arrays of one
--      length; node_ids (NULL = all).
-- Again: safe, it only reads.
SELECT (edge.number - 1)::bigint, node.id, entries.spans, outside.runs
FROM unnest(
    %(cuts)s::timestamptz[], %(start_ms)s::bigint[], %(end_ms)s::bigint[], %(part_start_ms)s::bigint[], %(part_end_ms)s::bigint[]
) WITH ORDINALITY AS edge (cut, start_ms, end_ms, part_start_ms, part_end_ms, number)
CROSS JOIN inventory_node AS node
CROSS JOIN LATERAL (
    SELECT string_agg(costs_span(gpu_id, job_id, kind, gpu_ms, energy_j, energy_ms), ''::bytea) AS spans
    FROM (
        SELECT
            gpu_id,
            job_id,
            costs_kind(state, tier, efficiency_source) AS kind,
            sum(gpu_ms)::bigint AS gpu_ms,
            sum(energy_j) AS energy_j,
            COALESCE(sum(gpu_ms) FILTER (WHERE energy_j IS NOT NULL), 0)::bigint AS energy_ms
        FROM ledger_entry
        WHERE node_id = node.id
          AND start = edge.cut
        -- hashed, as in spans.sql: sorted they take longer
        GROUP BY 1, 2, 3, '0'::xid
    ) AS part
) AS entries
CROSS JOIN LATERAL (
    SELECT
        COALESCE(
            string_agg(
                int8send(gpu_id) || int8send(COALESCE(job_id, 0)) || int8send(run.start_ms) || int8send(run.end_ms) || array_send(state_ms),
                ''::bytea
            ),
            ''::bytea
        ) AS runs
    FROM ledger_run AS run
    WHERE node_id = node.id
      -- no part is longer than an hour: the index on (node, end) answers
      AND run.end_ms > edge.start_ms
      AND run.end_ms <= edge.end_ms + 3600000
      AND run.start_ms < edge.end_ms
      AND (run.start_ms < edge.part_start_ms OR run.end_ms > edge.part_end_ms)
) AS outside
WHERE entries.spans IS NOT NULL
  AND (%(node_ids)s::bigint[] IS NULL OR node.id = ANY(%(node_ids)s::bigint[]))
