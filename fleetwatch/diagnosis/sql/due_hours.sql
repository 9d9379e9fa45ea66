-- One row: a clock hour of a node whose ledger changed since its causes were written; newest days first.
-- In:  since (date: older hours are final), this_hour (timestamp without zone, UTC: later hours wait), is_live (the hour that goes on
--      too; else only for the first time), limit; node_ids (NULL: of every node).
-- Again: safe, it only reads.
SELECT
    posted.node_id,
    (extract(epoch FROM posted.day + (hour.place - 1) * interval '1 hour') * 1000)::bigint AS hour_ms,
    hour.version
FROM ledger_nodeday AS posted
CROSS JOIN LATERAL unnest(posted.versions) WITH ORDINALITY AS hour (version, place)
LEFT JOIN diagnosis_diagnosedday AS diagnosed
    ON diagnosed.node_id = posted.node_id AND diagnosed.day = posted.day
WHERE posted.day >= %(since)s
  AND (%(node_ids)s::bigint[] IS NULL OR posted.node_id = ANY(%(node_ids)s::bigint[]))
  AND (
      posted.day + (hour.place - 1) * interval '1 hour' < %(this_hour)s
      OR (posted.day + (hour.place - 1) * interval '1 hour' = %(this_hour)s AND (%(is_live)s OR COALESCE(diagnosed.versions[hour.place], 0) = 0))
  )
  AND hour.version > 0
  AND hour.version IS DISTINCT FROM diagnosed.versions[hour.place]
ORDER BY posted.day DESC, posted.node_id, hour.place
LIMIT %(limit)s
