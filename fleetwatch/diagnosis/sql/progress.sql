-- One row: hours of nodes in a period that were posted, and of them those whose causes are worked out for the ledger as it stands.
-- In:  first_hour, end_hour (of UTC, since 1970: numbers compare in a fraction of what times take); since (date: older hours are final).
-- Again: safe, it only reads.
WITH node_day AS (
    SELECT
        posted.versions AS posted,
        diagnosed.versions AS diagnosed,
        day.first_hour,
        -- most days: each of its hours counts, and twice; or once, where nobody diagnosed any of them
        COALESCE(posted.versions = diagnosed.versions, true)
            AND day.first_hour BETWEEN %(first_hour)s AND %(end_hour)s - 24 AS is_done
    FROM ledger_nodeday AS posted
    LEFT JOIN diagnosis_diagnosedday AS diagnosed
        ON diagnosed.node_id = posted.node_id AND diagnosed.day = posted.day
    CROSS JOIN LATERAL (SELECT (posted.day - DATE '1970-01-01') * 24 AS first_hour) AS day
    WHERE posted.day >= %(since)s::date
      AND day.first_hour BETWEEN %(first_hour)s - 23 AND %(end_hour)s
),
counted AS (
    SELECT hours AS posted, CASE WHEN diagnosed IS NULL THEN 0 ELSE hours END AS diagnosed
    FROM node_day
    CROSS JOIN LATERAL (SELECT cardinality(array_remove(posted, 0)) AS hours) AS every
    WHERE is_done
    UNION ALL
    SELECT count(*), count(*) FILTER (WHERE hour.version = hour.diagnosed)
    FROM node_day
    CROSS JOIN LATERAL unnest(posted, diagnosed) WITH ORDINALITY AS hour (version, diagnosed, place)
    WHERE NOT is_done
      AND first_hour + hour.place BETWEEN %(first_hour)s + 1 AND %(end_hour)s
      AND hour.version > 0
)
SELECT COALESCE(sum(posted), 0)::bigint AS posted, COALESCE(sum(diagnosed), 0)::bigint AS diagnosed
FROM counted
