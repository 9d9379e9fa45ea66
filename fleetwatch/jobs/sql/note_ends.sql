-- Notes ends of runs; one row per end that is new or another one than before: its job.
-- In:  job_id, node_id (NULL: all), gpu_id (NULL: of the whole job), source, start_ms (NULL: not known), end_ms, is_cluster, as_of_ms, boot_start_ms,
--      sequence, by position; each run once. Sorted, so that two batches with the same ends wait for each other and do not deadlock.
-- Again: safe; the last word wins, whatever the order in which they come.
WITH written AS (
    INSERT INTO jobs_runend AS kept (job_id, node_id, gpu_id, source, start_ms, end_ms, is_cluster, as_of_ms, boot_start_ms, sequence)
    SELECT
        job_id, node_id, gpu_id, source, start_ms, end_ms, is_cluster, as_of_ms, boot_start_ms, sequence
    FROM unnest(
        %(job_id)s::bigint[], %(node_id)s::bigint[], %(gpu_id)s::bigint[], %(source)b::text[], %(start_ms)s::bigint[], %(end_ms)s::bigint[], %(is_cluster)b::boolean[],
        %(as_of_ms)s::bigint[], %(boot_start_ms)s::bigint[], %(sequence)s::bigint[]
    ) AS given (job_id, node_id, gpu_id, source, start_ms, end_ms, is_cluster, as_of_ms, boot_start_ms, sequence)
    ORDER BY job_id, node_id, gpu_id, source, start_ms
    ON CONFLICT (job_id, node_id, gpu_id, source, start_ms) DO UPDATE SET
        end_ms = excluded.end_ms,
        is_cluster = excluded.is_cluster,
        as_of_ms = excluded.as_of_ms,
        boot_start_ms = excluded.boot_start_ms,
        sequence = excluded.sequence
    WHERE (kept.is_cluster, kept.as_of_ms, kept.boot_start_ms, kept.sequence, kept.end_ms)
        < (excluded.is_cluster, excluded.as_of_ms, excluded.boot_start_ms, excluded.sequence, excluded.end_ms)
    RETURNING new.job_id, old.id IS NULL OR old.end_ms <> new.end_ms OR new.gpu_id IS NOT NULL AS is_other
)
SELECT DISTINCT job_id
FROM written
WHERE is_other
