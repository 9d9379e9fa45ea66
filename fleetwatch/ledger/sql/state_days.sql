-- One row: a node and UTC day, and its time by state where that is kept and still what the entries say; else NULL.
-- In:  days (dates); node_ids, NULL = all nodes.
-- Again: safe, it only reads.
SELECT node.id AS node_id, calendar.day, state_day.spent
FROM inventory_node AS node
CROSS JOIN unnest(%(days)s::date[]) AS calendar (day)
-- the days as constants, too: so no others are sorted in
LEFT JOIN ledger_nodeday AS node_day
    ON  node_day.node_id = node.id
    AND node_day.day = calendar.day
    AND node_day.day = ANY(%(days)s::date[])
LEFT JOIN ledger_stateday AS state_day
    ON  state_day.node_id = node.id
    AND state_day.day = calendar.day
    AND state_day.day = ANY(%(days)s::date[])
    AND state_day.versions = node_day.versions
WHERE (%(node_ids)s::bigint[] IS NULL OR node.id = ANY(%(node_ids)s::bigint[]))
