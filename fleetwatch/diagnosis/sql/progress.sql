-- One row: hours of nodes in a period that were posted, and of them those whose causes are worked out for the ledger as it stands.
-- In:  first_hour, end_hour (of UTC, since 1970: numbers compare in a fraction of what times take); since (date: older hours are final).
-- Again: safe, it only reads.
SELECT
    count(*) AS posted,
    count(*) FILTER (WHERE hour.version = hour.diagnosed) AS diagnosed
FROM ledger_nodeday AS posted
LEFT JOIN diagnosis_diagnosedday AS diagnosed
    ON diagnosed.node_id = posted.node_id AND diagnosed.day = posted.day
CROSS JOIN LATERAL unnest(posted.versions, diagnosed.versions) WITH ORDINALITY AS hour (version, diagnosed, place)
CROSS JOIN LATERAL (SELECT (posted.day - DATE '1970-01-01') * 24 AS first_hour) AS day
WHERE posted.day >= %(since)s::date
  AND day.first_hour BETWEEN %(first_hour)s - 23 AND %(end_hour)s
  AND day.first_hour + hour.place BETWEEN %(first_hour)s + 1 AND %(end_hour)s
  AND hour.version > 0
