-- Brings incidents that go on up to date: all that an evaluation may change of them.
-- In:  rows (jsonb): an array of objects, one for each incident.
-- Again: safe, it sets what is given.
UPDATE alerts_incident AS incident
SET since_ms = fresh.since_ms,
    until_ms = fresh.until_ms,
    fired_ms = fresh.fired_ms,
    ended_ms = fresh.ended_ms,
    state = fresh.state,
    updated_at = fresh.updated_at,
    note = fresh.note,
    facts = fresh.facts,
    person_id = fresh.person_id,
    team_id = fresh.team_id,
    is_late = fresh.is_late
FROM jsonb_to_recordset(%(rows)s::jsonb) AS fresh (
    id bigint, since_ms bigint, until_ms bigint, fired_ms bigint, ended_ms bigint, state text,
    updated_at timestamptz, note text, facts jsonb, person_id bigint, team_id bigint, is_late boolean
)
WHERE incident.id = fresh.id
