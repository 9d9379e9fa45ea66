-- One row per given record, in their order: itself, its job (NULL = there is none), and what the record changed.
-- In:  records (JSON array, sorted by key; each key, node, voice and user once); users: how many a node may name of one key.
-- The jobs are locked until the transaction ends, in order of key: who works out what is believed of a job sees all that was said of it.
-- Again: safe; facts change only by a newer batch, holds only grow, and what says nothing newer writes nothing.
WITH given AS MATERIALIZED (
    SELECT record.*, record.facts ->> 'user' AS "user"
    FROM ROWS FROM (
        jsonb_to_recordset(%(records)s::jsonb) AS (
            key text, node_id bigint, voice smallint, as_of_ms bigint, boot_start_ms bigint, sequence bigint,
            facts jsonb, held_at timestamptz, held_until_ms bigint
        )
    ) WITH ORDINALITY AS record
),
known AS MATERIALIZED (
    SELECT job.id, job.name, job.state, job.end_ms, job.restarts
    FROM jobs_job AS job
    WHERE job.said_key IN (SELECT key FROM given)
    ORDER BY job.said_key, job.id
    FOR NO KEY UPDATE OF job
),
written AS (
    INSERT INTO jobs_jobrecord AS kept (key, node_id, voice, "user", as_of_ms, boot_start_ms, sequence, facts, held_at, held_until_ms)
    SELECT key, node_id, voice, "user", as_of_ms, boot_start_ms, sequence, facts, held_at, held_until_ms
    FROM given
    -- one scheduler gives one number to few users: many of one key would make each batch that names it slow
    WHERE (
        SELECT count(*)
        FROM jobs_jobrecord AS other
        WHERE other.key = given.key AND other.node_id = given.node_id AND other."user" <> given."user"
    ) < %(users)s::int
    ON CONFLICT (key, node_id, voice, "user") DO UPDATE SET
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
        new.id, new.job_id, new.key, new.node_id, new.voice, new."user", new.held_at, new.facts,
        old.id IS NULL AS is_new,
        (old.facts, old.held_at) IS DISTINCT FROM (new.facts, new.held_at) AS is_changed,
        old.facts -> 'labels' IS DISTINCT FROM new.facts -> 'labels' AS has_new_labels
)
SELECT
    coalesce(written.id, kept.id),
    known.id,
    coalesce(written.is_new, FALSE),
    coalesce(written.is_changed, FALSE),
    coalesce(written.has_new_labels, FALSE),
    -- who may speak: a holder, with whichever voice its hold was told, and voices from records.Voice.IMPORT on
    written.id IS NOT NULL AND (
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
LEFT JOIN jobs_jobrecord AS kept
    ON kept.key = given.key AND kept.node_id = given.node_id AND kept.voice = given.voice AND kept."user" = given."user"
LEFT JOIN written
    ON written.key = given.key AND written.node_id = given.node_id AND written.voice = given.voice AND written."user" = given."user"
-- written has the newest row, kept the one of before this statement: a job that was given meanwhile is seen
LEFT JOIN known ON known.id = coalesce(written.job_id, kept.job_id)
ORDER BY given.ordinality
