-- Adds time to the reports of nodes' job sources.
-- In:  node_ids, kinds, oks, asserted (int8multirange text), by position; each node, kind and answer once.
-- Again: safe; a union does not care for order, and a report that says nothing new writes nothing.
INSERT INTO jobs_sourcereport AS kept (node_id, kind, ok, asserted)
SELECT
    node_id, kind, ok, asserted::int8multirange
FROM unnest(%(node_ids)s::bigint[], %(kinds)b::text[], %(oks)b::boolean[], %(asserted)b::text[]) AS given (node_id, kind, ok, asserted)
ON CONFLICT (node_id, kind, ok) DO UPDATE SET
    asserted = kept.asserted + excluded.asserted
WHERE NOT kept.asserted @> excluded.asserted
RETURNING kept.id
