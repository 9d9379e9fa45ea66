-- One row: a node on which one of the jobs or of the GPUs has GPU time in the period.
-- In:  start, end (timestamptz); job_ids (few) or NULL; gpu_ids or NULL.
-- Again: safe, it only reads.
SELECT node_id
FROM ledger_entry
WHERE job_id = ANY(%(job_ids)s::bigint[])
  AND start >= %(start)s::timestamptz
  AND start < %(end)s::timestamptz
UNION
-- each GPU by the index on (gpu, start): what is DISTINCT is not joined freely
SELECT there.node_id
FROM unnest(%(gpu_ids)s::bigint[]) AS gpu (id)
CROSS JOIN LATERAL (
    SELECT DISTINCT node_id
    FROM ledger_entry
    WHERE gpu_id = gpu.id
      AND start >= %(start)s::timestamptz
      AND start < %(end)s::timestamptz
) AS there
