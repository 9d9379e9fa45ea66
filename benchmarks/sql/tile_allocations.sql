-- One row per allocation of the posted day, again so many days earlier, on another GPU of the same model.
-- In:  tile_job (tile_source.sql), source_start, source_end (timestamptz), shift_days, gpus and other_gpus (ids, place by place).
-- Again: safe; an allocation that is there is left alone.
INSERT INTO jobs_allocation (gpu_id, job_id, source, share, asserted, starts, ended)
WITH moved AS (
    SELECT unnest(%(gpus)s::bigint[]) AS gpu_id, unnest(%(other_gpus)s::bigint[]) AS other_gpu_id
), shift AS (
    SELECT
        %(shift_days)s::bigint * 86400000 AS ms,
        int8range(
            (extract(epoch FROM %(source_start)s::timestamptz) * 1000)::bigint,
            (extract(epoch FROM %(source_end)s::timestamptz) * 1000)::bigint
        ) AS day
)
SELECT
    moved.other_gpu_id,
    tiled.id,
    allocation.source,
    allocation.share,
    range_agg(int8range(lower(span * shift.day) - shift.ms, upper(span * shift.day) - shift.ms)),
    array_agg(DISTINCT lower(span * shift.day) - shift.ms),
    '{}'
FROM jobs_allocation AS allocation
JOIN moved USING (gpu_id)
JOIN tile_job AS job ON job.id = allocation.job_id
JOIN jobs_job AS tiled ON tiled.key = job.key || '-' || %(shift_days)s
CROSS JOIN shift
CROSS JOIN LATERAL unnest(allocation.held) AS span
WHERE span && shift.day
GROUP BY moved.other_gpu_id, tiled.id, allocation.source, allocation.share
ON CONFLICT DO NOTHING
