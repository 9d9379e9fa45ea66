-- One row per chunk of the given nodes that may hold windows of an interval: its host samples where they are
-- wanted; its id and version, the length of its payload, the payload (of one longer than whole_to only `head` bytes).
-- In:  node_ids, after, before (when it starts), ends_after, whole_to, head, with_host.
-- Again: reads only. xmin changes whenever the row is written.
SELECT
    chunk.node_id,
    CASE WHEN %(with_host)s THEN chunk.host END AS host,
    chunk.id,
    chunk.xmin::text::bigint AS version,
    octet_length(chunk.payload) AS size,
    CASE
        WHEN octet_length(chunk.payload) <= %(whole_to)s THEN chunk.payload
        ELSE substring(chunk.payload FROM 1 FOR %(head)s)
    END AS payload
FROM telemetry_chunk AS chunk
WHERE chunk.node_id = ANY(%(node_ids)s)
  AND chunk.start > %(after)s
  AND chunk.start < %(before)s
  AND chunk."end" > %(ends_after)s
ORDER BY
    chunk.node_id,
    chunk.start
