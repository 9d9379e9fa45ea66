-- One row: the transactions that are seen (all before `oldest_running`, none from `next` on), the time, whether this one has written,
-- and the ids, packed, of the jobs whose owners were changed by transactions from `since` on (NULL = none were).
-- In:  since.
-- Again: safe, it only reads.
SELECT
    pg_snapshot_xmin(seen)::text::bigint AS oldest_running,
    pg_snapshot_xmax(seen)::text::bigint AS next,
    now() AS at,
    pg_current_xact_id_if_assigned() IS NOT NULL AS has_written,
    (
        SELECT string_agg(int8send(job_id), ''::bytea)
        FROM (SELECT DISTINCT job_id FROM costs_ownerchange WHERE transaction_id >= %(since)s::bigint) AS changed
    ) AS changed
FROM pg_current_snapshot() AS seen
