-- One row per node with hours to post now, and how many; the longest waiting first.
-- In:  this_hour (timestamptz): hours before it are over; posted_before: a node that was posted later waits with the hour that goes on.
-- Again: reads only.
SELECT
    mark.node_id,
    count(DISTINCT mark.hour)
FROM telemetry_touchedhour AS mark
LEFT JOIN telemetry_lastposting AS last ON last.node_id = mark.node_id
GROUP BY
    mark.node_id,
    last.at
HAVING min(mark.hour) < %(this_hour)s
    OR last.at IS NULL
    OR last.at <= %(posted_before)s
ORDER BY min(mark.id)
