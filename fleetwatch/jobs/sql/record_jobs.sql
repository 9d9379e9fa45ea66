-- One row per given record, by its place: its job as it was before (NULL = there is none), and what the record changed.
-- In:  records (JSON array, sorted by key; each key, node and voice once).
-- The jobs are locked until the transaction ends, in order of key: who works out what is believed of a job sees all that was said of it.
-- Again: safe; facts change only by a newer batch, holds only grow, and what says nothing newer writes nothing.
WITH given AS MATERIALIZED (
    SELECT *
    FROM jsonb_to_recordset(%(records)s::jsonb) AS record (
        place integer, key text, node_id bigint, voice smallint, as_of_ms bigint, boot_start_ms bigint, sequence bigint,
        facts jsonb, held_at timestamptz, held_until_ms bigint
    )
),
known AS MATERIALIZED (
    SELECT job.id, job.key, job.kind, job.team_id, job.name, job.state, job.end_ms, job.restarts
    FROM jobs_job AS job
    WHERE job.key IN (SELECT key FROM given)
    ORDER BY job.key
    FOR NO KEY UPDATE OF job
),
written AS (
    INSERT INTO jobs_jobrecord AS kept (key, node_id, voice, as_of_ms, boot_start_ms, sequence, facts, held_at, held_until_ms)
    SELECT key, node_id, voice, as_of_ms, boot_start_ms, sequence, facts, held_at, held_until_ms
    FROM given
    ON CONFLICT (key, node_id, voice) DO UPDATE SET
        as_of_ms = greatest(kept.as_of_ms, excluded.as_of_ms),
        boot_start_ms = CASE
            WHEN (kept.as_of_ms, kept.boot_start_ms, kept.sequence) < (excluded.as_of_ms, excluded.boot_start_ms, excluded.sequence) THEN excluded.boot_start_ms
            ELSE kept.boot_start_ms
        END,
        sequence = CASE
            WHEN (kept.as_of_ms, kept.boot_start_ms, kept.sequence) < (excluded.as_of_ms, excluded.boot_start_ms, excluded.sequence) THEN excluded.sequence
            ELSE kept.sequence
        END,
        facts = CASE
            WHEN (kept.as_of_ms, kept.boot_start_ms, kept.sequence) < (excluded.as_of_ms, excluded.boot_start_ms, excluded.sequence) THEN excluded.facts
            ELSE kept.facts
        END,
        held_at = coalesce(kept.held_at, excluded.held_at),
        held_until_ms = greatest(kept.held_until_ms, excluded.held_until_ms)
    WHERE (kept.as_of_ms, kept.boot_start_ms, kept.sequence) < (excluded.as_of_ms, excluded.boot_start_ms, excluded.sequence)
       OR excluded.held_until_ms > coalesce(kept.held_until_ms, 0)
    -- old: the row before, NULL of a new one
    RETURNING
        new.key, new.node_id, new.voice, new.held_at, new.facts,
        old.id IS NULL AS is_new,
        (old.facts, old.held_at) IS DISTINCT FROM (new.facts, new.held_at) AS is_changed,
        old.facts -> 'labels' IS DISTINCT FROM new.facts -> 'labels' AS has_new_labels
)
SELECT
    given.place,
    known.id,
    known.kind,
    known.team_id,
    coalesce(written.is_new, FALSE),
    coalesce(written.is_changed, FALSE),
    coalesce(written.has_new_labels, FALSE),
    -- who may speak: a holder, with whichever voice its hold was told, and voices from records.Voice.IMPORT on
    written.key IS NOT NULL AND (
        written.held_at IS NOT NULL
        OR written.voice >= 2
        OR EXISTS (
            SELECT FROM jobs_jobrecord AS other
            WHERE other.key = written.key AND other.node_id = written.node_id AND other.held_at IS NOT NULL
        )
    ),
    (known.state, known.end_ms, known.restarts, known.name) IS DISTINCT FROM (
        written.facts ->> 'state', (written.facts ->> 'end_ms')::bigint, (written.facts ->> 'restarts')::bigint,
        coalesce(nullif(written.facts ->> 'name', ''), known.name)
    )
FROM given
LEFT JOIN known ON known.key = given.key
LEFT JOIN written ON written.key = given.key AND written.node_id = given.node_id AND written.voice = given.voice
ORDER BY given.place
