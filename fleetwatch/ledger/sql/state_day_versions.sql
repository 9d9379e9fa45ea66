-- One row: a UTC day of which there are entries, and a number that is another one once any of its nodes' entries are.
-- In:  days (dates).
-- Again: safe, it only reads.
SELECT node_day.day, sum(hashint8extended(node_day.node_id, node_day.version))
FROM ledger_nodeday AS node_day
WHERE node_day.day = ANY(%(days)s::date[])
GROUP BY node_day.day
