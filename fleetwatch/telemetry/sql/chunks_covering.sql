-- One row per given (node, hour) that is sealed: the hour, and the chunk that holds it.
-- In:  nodes, hours (by position).
-- Again: reads only. No chunk is longer than 6 hours: the index need not be read from its beginning.
SELECT
    wanted.hour,
    chunk.node_id,
    chunk.start,
    chunk."end",
    chunk.payload,
    chunk.host,
    chunk.window_count
FROM unnest(%(nodes)s::bigint[], %(hours)s::timestamptz[]) AS wanted (node_id, hour)
JOIN telemetry_chunk AS chunk
    ON  chunk.node_id = wanted.node_id
    AND chunk.start > wanted.hour - interval '6 hours'
    AND chunk.start <= wanted.hour
    AND chunk."end" > wanted.hour
