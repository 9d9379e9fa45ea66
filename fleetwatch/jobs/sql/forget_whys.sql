-- Of each job source of the nodes keeps the newest reasons for which it did not answer; the time of the others stays, without a reason.
-- In:  node_ids, kept (how many).
-- Again: safe.
WITH ranked AS (
    SELECT id, row_number() OVER (PARTITION BY node_id, kind ORDER BY upper(asserted) DESC, why) AS place
    FROM jobs_sourcereport
    WHERE node_id = ANY(%(node_ids)s::bigint[])
      AND NOT ok
      AND why <> ''
),
forgotten AS (
    DELETE FROM jobs_sourcereport
    USING ranked
    WHERE jobs_sourcereport.id = ranked.id
      AND ranked.place > %(kept)s::bigint
    RETURNING node_id, kind, asserted
)
INSERT INTO jobs_sourcereport AS kept (node_id, kind, ok, why, asserted)
SELECT
    node_id, kind, FALSE, '', range_agg(span)
FROM forgotten, unnest(asserted) AS span
GROUP BY node_id, kind
ON CONFLICT (node_id, kind, ok, why) DO UPDATE SET
    asserted = kept.asserted + excluded.asserted
RETURNING kept.id
