-- One row: until when every node that is posted has its time in the ledger, and until when nodes have it on average, in milliseconds;
--      NULL where none was posted lately.
-- In:  now_ms, since_ms (bigint): a node whose newest run ended before since_ms is not posted any more, or far behind.
-- Again: safe, it only reads.
SELECT
    min(newest.ms),
    round(avg(newest.ms))::bigint
FROM inventory_node AS node
-- its last cut alone: the index hour_runs_by_node says which; no cut is longer than an hour
CROSS JOIN LATERAL (
    SELECT node_id, max(cut_ms) AS cut_ms
    FROM ledger_hourruns
    WHERE node_id = node.id
      AND cut_ms > %(since_ms)s - 3600000
    GROUP BY node_id
) AS last_cut
CROSS JOIN LATERAL (
    SELECT LEAST(max(run.end_ms), %(now_ms)s) AS ms
    FROM ledger_run AS run
    WHERE run.node_id = last_cut.node_id
      AND run.cut_ms = last_cut.cut_ms
    GROUP BY run.node_id
    HAVING max(run.end_ms) > %(since_ms)s
) AS newest
