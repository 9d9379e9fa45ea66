-- One row per part of a run within the posted day, again so many days earlier, as tile_entries.sql does.
-- In:  source_start_ms, source_end_ms, shift_days, gpus and other_gpus (ids, place by place).
-- Again: not safe; the caller asks first whether the day has entries, in the same transaction.
INSERT INTO ledger_run (node_id, gpu_id, job_id, condition, start_ms, end_ms, continues, state_ms, figures)
WITH moved AS (
    SELECT pair.gpu_id, pair.other_gpu_id, gpu.node_id AS other_node_id
    FROM (SELECT unnest(%(gpus)s::bigint[]) AS gpu_id, unnest(%(other_gpus)s::bigint[]) AS other_gpu_id) AS pair
    JOIN inventory_gpu AS gpu ON gpu.id = pair.other_gpu_id
), shift AS (
    SELECT %(shift_days)s::bigint * 86400000 AS ms
)
SELECT
    moved.other_node_id,
    moved.other_gpu_id,
    tiled.id,
    run.condition,
    run.start_ms - shift.ms,
    run.end_ms - shift.ms,
    run.continues AND run.start_ms > %(source_start_ms)s,
    run.state_ms,
    run.figures
FROM ledger_run AS run
JOIN moved USING (gpu_id)
CROSS JOIN shift
LEFT JOIN jobs_job AS job ON job.id = run.job_id
LEFT JOIN jobs_job AS tiled ON tiled.key = job.key || '-' || %(shift_days)s
WHERE run.start_ms >= %(source_start_ms)s AND run.end_ms <= %(source_end_ms)s
ORDER BY moved.other_node_id, run.start_ms
