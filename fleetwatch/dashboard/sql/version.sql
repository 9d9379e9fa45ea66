-- One row: the newest entry of the audit log (what people did), and the newest evaluation that ended (what alerts say); 0 = none yet.
-- Both are read off the end of an index, however long the tables are. And the end of the newest window of any node; NULL = none yet.
-- Again: safe, it only reads.
SELECT
    coalesce((SELECT max(id) FROM accounts_auditentry), 0),
    coalesce(
        (
            SELECT id
            FROM operations_jobrun
            WHERE name = 'alerts.evaluate'
              AND ok
            ORDER BY started_at DESC
            LIMIT 1
        ),
        0
    ),
    (SELECT max(last_ms) FROM inventory_node);
