-- One row: a node's GPU time in one cut of the ledger, packed as packed_spans.py reads it: of each GPU, holder and kind; and the parts of its runs
--      in the cut, packed as ledger/packed_runs.py reads them.
-- In:  cuts (where each begins); start_ms, end_ms (of each cut): arrays of one length; node_ids (NULL = all).
-- Again: safe, it only reads.
SELECT
    (edge.number - 1)::bigint,
    node.id,
    entries.spans,
    COALESCE(runs.hours, ''::bytea),
    COALESCE(runs.begins, ''::bytea),
    COALESCE(runs.ends, ''::bytea),
    COALESCE(runs.states, ''::bytea)
FROM unnest(
    %(cuts)s::timestamptz[], %(start_ms)s::bigint[], %(end_ms)s::bigint[]
) WITH ORDINALITY AS edge (cut, start_ms, end_ms, number)
CROSS JOIN inventory_node AS node
CROSS JOIN LATERAL (
    SELECT node_id, string_agg(costs_span(gpu_id, job_id, kind, gpu_ms, energy_j, energy_ms), ''::bytea) AS spans
    FROM (
        SELECT
            node_id,
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
        GROUP BY 1, 2, 3, 4, '0'::xid
    ) AS part
    GROUP BY node_id
) AS entries
LEFT JOIN LATERAL (
    SELECT
        string_agg(
            int8send(gpu_id) || int8send(COALESCE(job_id, 0)) || int8send(cut_ms) || int4send(cardinality(ends)),
            ''::bytea
        ) AS hours,
        string_agg(substr(array_send(begins), 21), ''::bytea) AS begins,
        string_agg(substr(array_send(ends), 21), ''::bytea) AS ends,
        string_agg(substr(array_send(state_ms), 21), ''::bytea) AS states
    FROM ledger_hourruns
    WHERE node_id = entries.node_id
      AND cut_ms >= edge.start_ms
      AND cut_ms < edge.end_ms
    GROUP BY node_id
) AS runs ON TRUE
WHERE (%(node_ids)s::bigint[] IS NULL OR node.id = ANY(%(node_ids)s::bigint[]))
