-- One row: a node's UTC day whose sums of causes are taken for current and are not what its causes sum to.
-- In:  start, end (dates; days from start on and before end).
-- Again: safe, it only reads.
WITH summed AS MATERIALIZED (
    SELECT node_id, day FROM diagnosis_diagnosedday WHERE is_summed AND day >= %(start)s AND day < %(end)s
),
by_sum AS (
    SELECT
        day_sum.node_id, day_sum.day, day_sum.job_id, day_sum.cause,
        sum(day_sum.held_ms) AS held_ms,
        sum(day_sum.idle_certain_ms + day_sum.idle_probable_ms + day_sum.stalled_probable_ms + day_sum.stalled_potential_ms + day_sum.underused_ms)
            AS wasted_ms,
        sum(day_sum.low_ms) AS low_ms,
        sum(day_sum.high_ms) AS high_ms
    FROM diagnosis_causeday AS day_sum
    JOIN summed ON summed.node_id = day_sum.node_id AND summed.day = day_sum.day
    GROUP BY 1, 2, 3, 4
),
by_entry AS (
    SELECT
        summed.node_id, summed.day, cause.job_id, cause.cause,
        sum(cause.held_ms) AS held_ms,
        sum(cause.idle_certain_ms + cause.idle_probable_ms + cause.stalled_probable_ms + cause.stalled_potential_ms + cause.underused_ms)
            AS wasted_ms,
        sum(cause.low_ms) AS low_ms,
        sum(cause.high_ms) AS high_ms
    FROM summed
    JOIN diagnosis_causeentry AS cause
        ON  cause.node_id = summed.node_id
        AND cause.start >= summed.day::timestamp AT TIME ZONE 'UTC'
        AND cause.start < (summed.day + 1)::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1, 2, 3, 4
)
SELECT node.name, day, count(*) AS lines
FROM by_sum
FULL JOIN by_entry USING (node_id, day, job_id, cause)
JOIN inventory_node AS node ON node.id = node_id
WHERE (by_sum.held_ms, by_sum.wasted_ms, by_sum.low_ms, by_sum.high_ms)
    IS DISTINCT FROM (by_entry.held_ms, by_entry.wasted_ms, by_entry.low_ms, by_entry.high_ms)
GROUP BY 1, 2
ORDER BY 2, 1
