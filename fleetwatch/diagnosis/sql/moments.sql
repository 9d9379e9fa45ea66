-- One row: a moment in the period at which a price or whose a job's time is may change: no sum reaches across it.
-- In:  start, end (timestamptz).
-- Again: safe, it only reads.
WITH change AS (
    SELECT unnest(ARRAY[valid_from, valid_to]) AS moment FROM costs_rate
    UNION ALL
    SELECT valid_from FROM costs_exchangerate WHERE currency IN (SELECT currency FROM costs_rate)
    UNION ALL
    SELECT valid_from FROM costs_nodeplace
    UNION ALL
    SELECT unnest(ARRAY[valid_from, valid_to]) FROM costs_mappingrule
    UNION ALL
    SELECT "end" FROM ledger_closedmonth
)
SELECT DISTINCT moment FROM change WHERE moment > %(start)s AND moment < %(end)s ORDER BY moment
