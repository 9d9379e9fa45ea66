-- One row: GPU time of a node between two moments, packed as CUT_RECORD of state_spans.py: where a cut begins, and what a GPU, a
-- holder and a kind have in it, which may be there several times: an entry each. Few are alike within a cut, to find those takes
-- as long as all the rest.
-- In:  start, end (timestamptz, cuts of the ledger);
--      what is looked at, NULL = all: node_ids, gpu_ids, job_id, states.
-- Again: safe, it only reads. The tests on parameters are constants to the planner: it folds them away.
SELECT
    node_id,
    0,
    0,
    NULL,
    string_agg(
        timestamptz_send(start)
            || costs_span(
                gpu_id, job_id, costs_kind(state, tier, efficiency_source), gpu_ms, energy_j,
                CASE WHEN energy_j IS NULL THEN 0 ELSE gpu_ms END
            ),
        ''::bytea
    )
FROM ledger_entry
WHERE start >= %(start)s::timestamptz
  AND start < %(end)s::timestamptz
  AND (%(node_ids)s::bigint[] IS NULL OR node_id = ANY(%(node_ids)s::bigint[]))
  AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
  AND (%(gpu_ids)s::bigint[] IS NULL OR gpu_id = ANY(%(gpu_ids)s::bigint[]))
  AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s::text[]))
GROUP BY node_id
