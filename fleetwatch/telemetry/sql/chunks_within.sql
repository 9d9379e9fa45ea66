-- One row per chunk that lies in one of the given stretches of nodes' time (whole hours), or around it: the stretch's start,
-- and the chunk, oldest first.
-- In:  nodes, starts (by position), length (interval; of all stretches). For writing: call it with the nodes' sealing locks held.
-- Again: reads only. No chunk is longer than 6 hours: the index need not be read from its beginning.
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
    AND chunk.start > wanted.start - interval '6 hours'
    AND chunk.start < wanted.start + %(length)s
    AND chunk."end" > wanted.start
ORDER BY wanted.start, chunk.node_id, chunk.start
