-- Of which version of its ledger a node's hours are diagnosed now.
-- In:  node_id, hour_ms (clock hours), version: arrays of one length.
-- Again: safe, it writes the same numbers.
WITH due AS (
    SELECT node_id, version, to_timestamp(hour_ms / 1000) AT TIME ZONE 'UTC' AS hour
    FROM unnest(%(node_id)s::bigint[], %(hour_ms)s::bigint[], %(version)s::bigint[]) AS due (node_id, hour_ms, version)
),
told AS (
    SELECT node_id, hour::date AS day, jsonb_object_agg(extract(hour FROM hour)::int + 1, version) AS versions
    FROM due
    GROUP BY node_id, hour::date
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
