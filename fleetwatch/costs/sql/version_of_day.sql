-- One row: how new the entries are of all nodes in the UTC days that a day of the organisation touches, as one number that grows with each.
-- In:  start, end.
-- Again: safe, it only reads.
SELECT COALESCE(sum(version), 0)::bigint
FROM ledger_nodeday
WHERE day BETWEEN (%(start)s::timestamptz AT TIME ZONE 'UTC')::date
              AND ((%(end)s::timestamptz - interval '1 microsecond') AT TIME ZONE 'UTC')::date
