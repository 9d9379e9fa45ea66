-- One row per job that did not exist: its key.
-- In:  keys (sorted: who names the same new jobs at once waits and does not deadlock).
-- Again: safe; a job that is there is left alone.
INSERT INTO jobs_job (key, scheduler, cluster, external_id, name, "user", account, kind, state, restarts, labels)
SELECT key, '', '', '', '', '', '', 'batch', '', 0, '{}'::jsonb
FROM unnest(%(keys)b::text[]) AS given (key)
ORDER BY key
ON CONFLICT (key) DO NOTHING
RETURNING key
