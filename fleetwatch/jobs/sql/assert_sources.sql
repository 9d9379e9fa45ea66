-- Adds time to the reports of a node's job sources.
-- In:  node_id; kinds and oks (arrays of the same length); asserted (int8multirange text).
-- Again: safe; a union does not care for order, and a report that says nothing new writes nothing.
INSERT INTO jobs_sourcereport AS kept (node_id, kind, ok, asserted)
SELECT
    %(node_id)s, kind, ok, %(asserted)s::int8multirange
FROM unnest(%(kinds)s::text[], %(oks)s::boolean[]) AS given (kind, ok)
ON CONFLICT (node_id, kind, ok) DO UPDATE SET
    asserted = kept.asserted + excluded.asserted
WHERE NOT kept.asserted @> excluded.asserted
