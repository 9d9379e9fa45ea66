-- One row written: GPU time of one GPU, hour cut and cause of its node: broken (gpu_fault), unseen (no_telemetry), held by what
--     is of no job (orphaned), or with persistence mode off (persistence_off). A drained node is no fault. A GPU on which a job worked while memory errors were
--     counted is broken too, with nothing to win: none of its time was blocked.
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
),
-- at least half an hour is there, and less than 60 percent of it was observed
unseen AS (
    SELECT node_id, hour
    FROM spent
    GROUP BY node_id, hour
    HAVING sum(gpu_ms) >= 1800000 * count(DISTINCT gpu_id)
       AND sum(gpu_ms) FILTER (WHERE state = 'unobserved') > 0.4 * sum(gpu_ms)
)
INSERT INTO diagnosis_capacityentry (node_id, gpu_id, cluster, start, cause, gpu_ms, low_ms, high_ms)
SELECT node_id, gpu_id, '', start, 'gpu_fault', sum(gpu_ms), sum(gpu_ms), sum(gpu_ms)
FROM spent
WHERE state = 'unavailable' AND reason <> 'drained'
GROUP BY node_id, gpu_id, start
UNION ALL
SELECT cause.node_id, cause.gpu_id, '', cause.start, 'gpu_fault', sum(cause.held_ms), 0, 0
FROM hour
JOIN diagnosis_causeentry AS cause
    ON  cause.node_id = hour.node_id
    AND cause.start >= hour.start
    AND cause.start < hour.start + interval '1 hour'
    AND cause.cause = 'gpu_fault'
WHERE NOT EXISTS (
    SELECT FROM spent WHERE spent.gpu_id = cause.gpu_id AND spent.start = cause.start AND spent.state = 'unavailable'
)
GROUP BY cause.node_id, cause.gpu_id, cause.start
UNION ALL
SELECT node_id, gpu_id, '', start, 'no_telemetry', sum(gpu_ms), 0, 0
FROM spent
JOIN unseen USING (node_id, hour)
WHERE state = 'unobserved'
GROUP BY node_id, gpu_id, start
UNION ALL
SELECT node_id, gpu_id, '', start, 'orphaned', sum(gpu_ms), sum(gpu_ms), sum(gpu_ms)
FROM spent
WHERE state = 'orphaned'
GROUP BY node_id, gpu_id, start
UNION ALL
SELECT spent.node_id, spent.gpu_id, '', spent.start, 'persistence_off', sum(spent.gpu_ms), 0, 0
FROM spent
JOIN inventory_gpu AS gpu ON gpu.id = spent.gpu_id
WHERE NOT gpu.persistence AND spent.state <> 'unobserved'
GROUP BY spent.node_id, spent.gpu_id, spent.start
