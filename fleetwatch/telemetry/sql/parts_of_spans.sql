-- One row per chunk of the given (node, 6-hour span): the span's start, and the chunk, oldest first.
-- In:  nodes, starts (by position). Call it with the nodes' sealing locks held.
-- Again: reads only.
SELECT
    wanted.start,
    chunk.node_id,
    chunk.start,
    chunk."end",
    chunk.payload,
    chunk.host,
    chunk.window_count
FROM unnest(%(nodes)s::bigint[], %(starts)s::timestamptz[]) AS wanted (node_id, start)
JOIN telemetry_chunk AS chunk
    ON  chunk.node_id = wanted.node_id
    AND chunk.start >= wanted.start
    AND chunk.start < wanted.start + interval '6 hours'
ORDER BY wanted.start, chunk.node_id, chunk.start
