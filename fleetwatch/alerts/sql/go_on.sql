-- Brings incidents that go on up to date of which nothing else is new: where their breach was seen last.
-- In:  rows (jsonb): an array of objects, one for each incident.
-- Again: safe, it sets what is given.
UPDATE alerts_incident AS incident
SET until_ms = fresh.until_ms,
    is_late = fresh.is_late
FROM jsonb_to_recordset(%(rows)s::jsonb) AS fresh (id bigint, until_ms bigint, is_late boolean)
WHERE incident.id = fresh.id
  AND (incident.until_ms, incident.is_late) IS DISTINCT FROM (fresh.until_ms, fresh.is_late)
