-- Gives what one node holds of a job, and what it told of its ends, to another job; one row per span: GPU, bounds in ms, half-open.
-- In:  node_id, former_id, job_id; both jobs are locked.
-- Again: safe; the former job holds nothing there any more. The holds' ends are to be regarded anew.
WITH gone AS (
    DELETE FROM jobs_allocation AS allocation
    USING inventory_gpu AS gpu
    WHERE allocation.job_id = %(former_id)s::bigint AND gpu.id = allocation.gpu_id AND gpu.node_id = %(node_id)s::bigint
    RETURNING allocation.gpu_id, allocation.source, allocation.share, allocation.asserted, allocation.starts, allocation.held,
        allocation.repeated_from_ms
),
given AS (
    INSERT INTO jobs_allocation AS kept (gpu_id, job_id, source, share, asserted, starts, ended, repeated_from_ms)
    SELECT gpu_id, %(job_id)s::bigint, source, share, asserted, starts, '{}', repeated_from_ms
    FROM gone
    ON CONFLICT (gpu_id, job_id, source, share) DO UPDATE SET
        asserted = kept.asserted + excluded.asserted,
        starts = (
            SELECT coalesce(array_agg(DISTINCT start_ms ORDER BY start_ms), '{}')
            FROM unnest(kept.starts || excluded.starts) AS start_ms
        ),
        repeated_from_ms = COALESCE(excluded.repeated_from_ms, kept.repeated_from_ms)
),
ends AS (
    DELETE FROM jobs_runend
    WHERE job_id = %(former_id)s::bigint AND node_id = %(node_id)s::bigint
    RETURNING *
),
given_ends AS (
    INSERT INTO jobs_runend (job_id, node_id, gpu_id, source, start_ms, end_ms, is_cluster, as_of_ms, boot_start_ms, sequence)
    SELECT %(job_id)s::bigint, node_id, gpu_id, source, start_ms, end_ms, is_cluster, as_of_ms, boot_start_ms, sequence
    FROM ends
    ON CONFLICT (job_id, node_id, gpu_id, source, start_ms) DO NOTHING
),
processes AS (
    UPDATE jobs_gpuprocess AS process
    SET job_id = %(job_id)s::bigint
    FROM inventory_gpu AS gpu
    WHERE process.job_id = %(former_id)s::bigint AND gpu.id = process.gpu_id AND gpu.node_id = %(node_id)s::bigint
)
SELECT gpu_id, lower(span), upper(span)
FROM gone, unnest(held) AS span
