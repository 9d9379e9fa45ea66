-- One row: a moment in the period at which a price, or (by_owner) whose a job's time is, may change: no sum reaches across it;
--      of the price of one node alone, or (NULL) of everybody's.
-- In:  start, end (timestamptz, cuts of the ledger); by_owner.
-- Again: safe, it only reads.
WITH change AS (
    SELECT NULL::bigint AS node_id, moment
    FROM costs_rate
    CROSS JOIN LATERAL unnest(ARRAY[valid_from, valid_to]) AS change (moment)
    UNION ALL
    SELECT NULL, valid_from
    FROM costs_exchangerate
    WHERE currency IN (SELECT currency FROM costs_rate)
    UNION ALL
    -- of nodes whose labels put them elsewhere
    SELECT node_id, valid_from
    FROM costs_nodeplace
    UNION ALL
    -- by a mapping rule, or where a closed month keeps what was
    SELECT NULL, moment
    FROM costs_mappingrule
    CROSS JOIN LATERAL unnest(ARRAY[valid_from, valid_to]) AS change (moment)
    WHERE %(by_owner)s::boolean
    UNION ALL
    SELECT NULL, "end"
    FROM ledger_closedmonth
    WHERE %(by_owner)s::boolean
)
SELECT DISTINCT moment, node_id
FROM change
WHERE moment > %(start)s::timestamptz
  AND moment < %(end)s::timestamptz
ORDER BY moment, node_id
