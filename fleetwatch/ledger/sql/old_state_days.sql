-- One row: a node's UTC day whose time by state is not kept, or older than its entries; newest first.
-- In:  until (date: days before it), limit.
-- Again: safe, it only reads.
SELECT node_day.node_id, node_day.day, node_day.versions
FROM ledger_nodeday AS node_day
LEFT JOIN ledger_stateday AS state_day USING (node_id, day)
WHERE node_day.day < %(until)s
  AND state_day.versions IS DISTINCT FROM node_day.versions
ORDER BY node_day.day DESC, node_day.node_id
LIMIT %(limit)s
