-- One row: a cut of the ledger of which there are entries, and a number that is another one once any node's entries or runs of its clock hour are.
-- In:  cuts (where each begins).
-- Again: safe, it only reads.
SELECT
    cut.start,
    sum(hashint8extended(node_day.node_id, node_day.versions[1 + extract(hour FROM cut.start AT TIME ZONE 'UTC')::int]))
FROM unnest(%(cuts)s::timestamptz[]) AS cut (start)
JOIN ledger_nodeday AS node_day ON node_day.day = (cut.start AT TIME ZONE 'UTC')::date
GROUP BY cut.start
