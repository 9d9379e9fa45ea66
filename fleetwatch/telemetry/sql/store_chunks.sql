-- One row per written chunk.
-- In:  node_id, start, end, window_count, payload, host (by position); version (of the codec).
-- Again: the same rows; a chunk of the same node and start is replaced whole.
INSERT INTO telemetry_chunk AS stored (node_id, start, "end", version, window_count, payload, host)
SELECT
    node_id, start, "end", %(version)s, window_count, payload, host
FROM unnest(
    %(node_id)s::bigint[], %(start)b::timestamptz[], %(end)b::timestamptz[], %(window_count)s::bigint[], %(payload)b::bytea[], %(host)b::bytea[]
) AS given (node_id, start, "end", window_count, payload, host)
ON CONFLICT (node_id, start) DO UPDATE
SET "end" = EXCLUDED."end",
    version = EXCLUDED.version,
    window_count = EXCLUDED.window_count,
    payload = EXCLUDED.payload,
    host = EXCLUDED.host
RETURNING node_id
