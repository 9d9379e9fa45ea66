-- One row: a job and a GPU that it held when the GPU's node was heard last, of nodes that nobody heard since a moment.
-- In:  job_ids (bigint[]); since_ms (bigint): holds that ended before are left out; unheard_ms (bigint): the moment.
-- Again: safe, it only reads.
SELECT
    held.job_id,
    held.gpu_id,
    max(held.end_ms)
FROM inventory_node AS node
CROSS JOIN LATERAL (
    SELECT
        run.job_id,
        run.gpu_id,
        max(run.end_ms) AS end_ms
    FROM ledger_run AS run
    WHERE run.node_id = node.id
      AND run.cut_ms > %(since_ms)s - 3600000
      AND run.end_ms > %(since_ms)s
      AND run.job_id = ANY(%(job_ids)s)
    -- summed within: node by node through hour_runs_by_node, never the whole table
    GROUP BY
        run.node_id,
        run.job_id,
        run.gpu_id
) AS held
WHERE node.last_ms > %(since_ms)s
  AND node.last_ms <= %(unheard_ms)s
GROUP BY
    held.job_id,
    held.gpu_id
