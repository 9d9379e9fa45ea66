-- One row per job of an import (a batch without windows and host samples), as stored afterwards; a job of which more is known is not among them.
-- In:  jobs (JSON array, one object per job, sorted by key). A team that does not exist yet stays NULL.
-- Accounting knows how a job ended, not what it is: its kind and what the import leaves out stay as they were.
-- Jobs that are new or name another owner than before are marked (jobs_changedjob).
-- Again: safe; facts change only by a newer word (facts_order), so the order of batches does not matter.
WITH written AS (
    INSERT INTO jobs_job AS kept (
        key, scheduler, cluster, external_id, name, "user", account, team_id, kind, state,
        submit_ms, start_ms, end_ms, restarts, labels, facts_order
    )
    SELECT
        key, scheduler, cluster, external_id, name, "user", account,
        (SELECT team.id FROM accounts_team AS team WHERE team.slug = given.team_slug),
        kind, state, submit_ms, start_ms, end_ms, restarts, labels, facts_order
    FROM jsonb_to_recordset(%(jobs)s::jsonb) AS given (
        key text, scheduler text, cluster text, external_id text, name text, "user" text, account text, team_slug text, kind text, state text,
        submit_ms bigint, start_ms bigint, end_ms bigint, restarts integer, labels jsonb, facts_order jsonb
    )
    ON CONFLICT (key) DO UPDATE SET
        name = coalesce(nullif(excluded.name, ''), kept.name),
        "user" = coalesce(nullif(excluded."user", ''), kept."user"),
        account = coalesce(nullif(excluded.account, ''), kept.account),
        team_id = CASE WHEN excluded.account = '' THEN kept.team_id ELSE excluded.team_id END,
        state = excluded.state,
        submit_ms = coalesce(excluded.submit_ms, kept.submit_ms),
        start_ms = coalesce(excluded.start_ms, kept.start_ms),
        end_ms = coalesce(excluded.end_ms, kept.end_ms),
        restarts = greatest(excluded.restarts, kept.restarts),
        labels = kept.labels || excluded.labels,
        facts_order = excluded.facts_order
    WHERE kept.facts_order < excluded.facts_order
    -- old: the row before, NULL of a new one
    RETURNING
        new.id, new.key, new.kind, new.team_id,
        old.id AS former_id, old.kind AS former_kind, old.team_id AS former_team_id,
        COALESCE(old."user" <> '' OR old.account <> '', FALSE) AS was_named,
        (old.name, old."user", old.account, old.labels) IS DISTINCT FROM (new.name, new."user", new.account, new.labels) AS is_changed
),
marked AS (
    INSERT INTO jobs_changedjob (job_id, is_new, former_team_id, was_named)
    SELECT id, former_id IS NULL, former_team_id, was_named
    FROM written
    WHERE is_changed
)
SELECT id, key, kind, team_id, former_kind FROM written
