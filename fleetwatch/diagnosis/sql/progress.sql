-- One row: hours of nodes in a period that were posted, and of them those whose causes are worked out for the ledger as it stands.
-- In:  start, end (timestamptz); since (date: older hours are final).
-- Again: safe, it only reads.
SELECT
    count(*) AS posted,
    count(*) FILTER (WHERE hour.version IS NOT DISTINCT FROM diagnosed.versions[hour.place]) AS diagnosed
FROM ledger_nodeday AS posted
CROSS JOIN LATERAL unnest(posted.versions) WITH ORDINALITY AS hour (version, place)
LEFT JOIN diagnosis_diagnosedday AS diagnosed
    ON diagnosed.node_id = posted.node_id AND diagnosed.day = posted.day
WHERE posted.day BETWEEN GREATEST((%(start)s::timestamptz AT TIME ZONE 'UTC')::date, %(since)s::date) AND (%(end)s::timestamptz AT TIME ZONE 'UTC')::date
  AND (posted.day + (hour.place - 1) * interval '1 hour') AT TIME ZONE 'UTC' >= date_trunc('hour', %(start)s::timestamptz, 'UTC')
  -- the newest hour changes with every batch: only those that are over are counted
  AND (posted.day + hour.place * interval '1 hour') AT TIME ZONE 'UTC' <= %(end)s::timestamptz
  AND hour.version > 0
