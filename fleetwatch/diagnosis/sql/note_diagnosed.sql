-- Of which version of its ledger a node's hours are diagnosed now.
-- In:  node_ids, days, hours (1 to 24), versions: arrays of one length.
-- Again: safe, it writes the same numbers.
WITH told AS (
    SELECT node_id, day, jsonb_object_agg(hour, version) AS versions
    FROM unnest(%(node_ids)s::bigint[], %(days)s::date[], %(hours)s::int[], %(versions)s::bigint[]) AS one (node_id, day, hour, version)
    GROUP BY node_id, day
)
INSERT INTO diagnosis_diagnosedday AS kept (node_id, day, versions)
SELECT
    node_id,
    day,
    ARRAY(SELECT COALESCE((told.versions ->> place::text)::bigint, 0) FROM generate_series(1, 24) AS place)
FROM told
ON CONFLICT (node_id, day) DO UPDATE
SET versions = ARRAY(
    SELECT CASE WHEN EXCLUDED.versions[place] > 0 THEN EXCLUDED.versions[place] ELSE kept.versions[place] END
    FROM generate_series(1, 24) AS place
)
