-- Adds time to the reports of nodes' job sources; one row per reason that was not given before: its node.
-- In:  node_id, kind, ok, why, asserted (int8multirange text), by position; each node, kind, answer and reason once.
-- Sorted, so that two batches of the same sources wait for each other and do not deadlock.
-- Again: safe; a union does not care for order, and a report that says nothing new writes nothing.
WITH written AS (
    INSERT INTO jobs_sourcereport AS kept (node_id, kind, ok, why, asserted)
    SELECT
        node_id, kind, ok, why, asserted::int8multirange
    FROM unnest(
        %(node_id)s::bigint[], %(kind)b::text[], %(ok)b::boolean[], %(why)b::text[], %(asserted)b::text[]
    ) AS given (node_id, kind, ok, why, asserted)
    ORDER BY node_id, kind, ok, why
    ON CONFLICT (node_id, kind, ok, why) DO UPDATE SET
        asserted = kept.asserted + excluded.asserted
    WHERE NOT kept.asserted @> excluded.asserted
    RETURNING new.node_id, old.id IS NULL AND new.why <> '' AS is_new
)
SELECT DISTINCT node_id
FROM written
WHERE is_new
