-- One row per node and complete 6-hour span (from midnight UTC on) of which a chunk is shorter than the span, the oldest first.
-- In:  ended (spans that start then or earlier are complete), limit.
-- Again: reads only, by the index of the chunks that are no whole span (chunk_to_join).
SELECT
    node_id,
    date_bin('6 hours', start, '2000-01-01T00:00:00Z') AS span
FROM telemetry_chunk
WHERE "end" - start < interval '6 hours'
  AND start < %(ended)s + interval '6 hours'
  AND date_bin('6 hours', start, '2000-01-01T00:00:00Z') <= %(ended)s
GROUP BY node_id, span
ORDER BY span, node_id
LIMIT %(limit)s
