-- One row per hour of these nodes that is to be posted, with the ids of its marks, which are locked (one that is locked already is left out),
-- and from when on (ms) it changed.
-- In:  nodes (bigint[], the longest waiting first), limit (at most so many hours; of the last node the newest).
-- Again: the same rows, in the transaction that has the nodes' locks.
WITH wanted AS (
    SELECT DISTINCT
        mark.node_id,
        mark.hour,
        node.place
    FROM unnest(%(nodes)s::bigint[]) WITH ORDINALITY AS node (id, place)
    JOIN telemetry_touchedhour AS mark ON mark.node_id = node.id
    ORDER BY
        node.place,
        mark.hour DESC
    LIMIT %(limit)s
),
claimed AS (
    SELECT
        mark.id,
        mark.node_id,
        mark.hour,
        greatest(mark.from_ms, extract(epoch FROM mark.hour)::bigint * 1000) AS from_ms,
        wanted.place
    FROM wanted
    JOIN telemetry_touchedhour AS mark USING (node_id, hour)
    FOR UPDATE OF mark SKIP LOCKED
)
SELECT
    node_id,
    hour,
    array_agg(id),
    min(from_ms)
FROM claimed
GROUP BY
    node_id,
    hour,
    place
ORDER BY
    place,
    hour
