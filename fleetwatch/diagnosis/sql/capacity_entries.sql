-- One row written: GPU time of one GPU, hour cut and cause of its node, by the SELECTs of the causes (causes/, ENTRIES) that follow.
-- In:  node_ids, hours (timestamptz, clock hours; arrays of one length: a node's hour each).
-- Again: safe; the caller deletes the hours' rows first, in the same transaction.
WITH hour AS (
    SELECT node_id, start FROM unnest(%(node_ids)s::bigint[], %(hours)s::timestamptz[]) AS hour (node_id, start)
),
spent AS MATERIALIZED (
    SELECT entry.node_id, entry.gpu_id, hour.start AS hour, entry.start, entry.state, entry.reason, sum(entry.gpu_ms)::bigint AS gpu_ms
    FROM hour
    JOIN ledger_entry AS entry
        ON  entry.node_id = hour.node_id
        AND entry.start >= hour.start
        AND entry.start < hour.start + interval '1 hour'
    GROUP BY 1, 2, 3, 4, 5, 6
)
INSERT INTO diagnosis_capacityentry (node_id, gpu_id, cluster, start, cause, gpu_ms, low_ms, high_ms)
