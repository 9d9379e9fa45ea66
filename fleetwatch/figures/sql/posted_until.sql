-- One row: until when every node that is posted has its time in the ledger, and until when nodes have it on average, in milliseconds;
--      NULL where none was posted lately.
-- In:  now_ms, since_ms (bigint): a node whose newest run ended before since_ms is not posted any more, or far behind.
-- Again: safe, it only reads.
SELECT
    min(newest.ms),
    round(avg(newest.ms))::bigint
FROM inventory_node AS node
CROSS JOIN LATERAL (
    -- its last cut alone: the index hour_runs_by_node says which
    SELECT LEAST(max(run.end_ms), %(now_ms)s) AS ms
    FROM ledger_run AS run
    WHERE run.node_id = node.id
      AND run.cut_ms = (SELECT max(hour.cut_ms) FROM ledger_hourruns AS hour WHERE hour.node_id = node.id)
    HAVING max(run.end_ms) > %(since_ms)s
) AS newest
