-- One row: a UTC day, and a number that is another one once any node's entries of it are.
-- In:  days (dates).
-- Again: safe, it only reads.
SELECT day, sum(version)::bigint
FROM ledger_nodeday
WHERE day = ANY(%(days)s::date[])
GROUP BY day
