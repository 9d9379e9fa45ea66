-- One row: the time in milliseconds in which all windows of a node that are kept start, half-open; NULLs where there are none.
-- In:  node.
-- Again: reads only.
WITH chunks AS (
    SELECT
        (extract(epoch FROM min(start)) * 1000)::bigint AS first_ms,
        (extract(epoch FROM max("end")) * 1000)::bigint AS last_ms
    FROM telemetry_chunk
    WHERE node_id = %(node)s
), batches AS (
    SELECT
        min(start_ms) AS first_ms,
        max(end_ms) AS last_ms
    FROM telemetry_batch
    WHERE node_id = %(node)s
)
SELECT
    least(chunks.first_ms, batches.first_ms),
    greatest(chunks.last_ms, batches.last_ms)
FROM chunks, batches
