-- One row: a final hour of a node, and how many batches brought windows of it.
-- In:  node (bigint), hours (timestamptz[], each once), received_at.
-- Again: counts once more; the caller's transaction knows a batch by its sequence, so that each counts once.
INSERT INTO telemetry_latehour AS kept (node_id, hour, batches, received_at)
SELECT %(node)s, hour, 1, %(received_at)s
FROM unnest(%(hours)s::timestamptz[]) AS late (hour)
ON CONFLICT (node_id, hour) DO UPDATE
SET batches = kept.batches + 1, received_at = GREATEST(kept.received_at, EXCLUDED.received_at)
