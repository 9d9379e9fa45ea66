-- One row: of a held GPU and a job that holds it, from when to when the newest parts of its quiet run are, where it is
-- quiet up to where its node's telemetry ends.
-- In:  since_ms (bigint): nodes that ended before are left out; edge_ms (bigint): how far behind its node a GPU may lie.
-- Again: safe, it only reads.
SELECT
    part.gpu_id,
    part.job_id,
    min(part.start_ms),
    max(part.end_ms)
FROM inventory_node AS node
CROSS JOIN LATERAL (
    SELECT
        run.gpu_id,
        run.job_id,
        run.start_ms,
        run.end_ms
    FROM ledger_run AS run
    WHERE run.node_id = node.id
      AND run.end_ms >= node.last_ms - %(edge_ms)s
      AND run.condition = 'quiet'
      AND run.job_id IS NOT NULL
    -- a fence: node by node through run_by_node_end, never the whole table
    OFFSET 0
) AS part
WHERE node.last_ms > %(since_ms)s
  AND NOT EXISTS (
      SELECT
      FROM ledger_run AS later
      WHERE later.gpu_id = part.gpu_id
        AND later.start_ms >= part.end_ms
        AND later.condition <> 'unobserved'
  )
GROUP BY
    part.gpu_id,
    part.job_id
