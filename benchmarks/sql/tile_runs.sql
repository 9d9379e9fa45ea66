-- One row per row of runs of the posted day, again so many days earlier, as tile_entries.sql does.
-- In:  tile_run, tile_job (tile_source.sql), shift_days, gpus and other_gpus (ids, place by place).
-- Again: not safe; the caller asks first whether the day has entries.
INSERT INTO ledger_hourruns (node_id, gpu_id, job_id, cut_ms, in_trouble, conditions, begins, ends, continues, state_ms, figures)
WITH moved AS (
    SELECT pair.gpu_id, pair.other_gpu_id, gpu.node_id AS other_node_id
    FROM (SELECT unnest(%(gpus)s::bigint[]) AS gpu_id, unnest(%(other_gpus)s::bigint[]) AS other_gpu_id) AS pair
    JOIN inventory_gpu AS gpu ON gpu.id = pair.other_gpu_id
), tiled AS (
    SELECT job.id AS job_id, other.id AS other_job_id
    FROM tile_job AS job
    JOIN jobs_job AS other ON other.key = job.key || '-' || %(shift_days)s
), shift AS (
    SELECT %(shift_days)s::bigint * 86400000 AS ms
)
SELECT
    moved.other_node_id,
    moved.other_gpu_id,
    tiled.other_job_id,
    run.cut_ms - shift.ms,
    run.in_trouble,
    run.conditions,
    run.begins,
    run.ends,
    run.continues,
    run.state_ms,
    run.figures
FROM tile_run AS run
CROSS JOIN shift
JOIN moved USING (gpu_id)
LEFT JOIN tiled USING (job_id)
