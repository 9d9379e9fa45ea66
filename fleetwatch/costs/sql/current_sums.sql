-- The view costs_current_sum. One row: a node's day [start, until) whose sum is as new as its
-- entries, and the digest of the groups of one price that its hours are of: whether they still are,
-- who reads hours asks.
-- A UTC day's versions lie in one row; for other days those of three are put together.
CREATE OR REPLACE VIEW costs_current_sum AS
SELECT summed.node_id, summed.start, summed.until, summed.alike
FROM costs_summedday AS summed
LEFT JOIN ledger_nodeday AS first_day
    ON  first_day.node_id = summed.node_id
    AND first_day.day = (summed.start AT TIME ZONE 'UTC')::date
-- COALESCE: of an equation Postgres believes that it seldom holds, and would look up days one by one
WHERE COALESCE(summed.versions = CASE
    WHEN summed.start = date_trunc('day', summed.start, 'UTC')
     AND summed.until = summed.start + interval '24 hours'
    THEN COALESCE(first_day.versions, array_fill(0::bigint, ARRAY[24]))
    ELSE costs_versions(
        first_day.versions,
        (
            SELECT versions FROM ledger_nodeday AS second_day
            WHERE second_day.node_id = summed.node_id
              AND second_day.day = (summed.start AT TIME ZONE 'UTC')::date + 1
        ),
        (
            SELECT versions FROM ledger_nodeday AS third_day
            WHERE third_day.node_id = summed.node_id
              AND third_day.day = (summed.start AT TIME ZONE 'UTC')::date + 2
        ),
        summed.start,
        summed.until
    )
END, false)
