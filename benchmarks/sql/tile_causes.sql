-- One row per cause of the posted day's hours, again so many days earlier: on another GPU of the same model, of the tiled job.
-- In:  source_start, source_end (timestamptz), shift_days, gpus and other_gpus (ids, place by place).
-- Again: not safe; the caller makes a fleet once.
INSERT INTO diagnosis_causeentry (
    node_id, gpu_id, start, job_id, cause, confidence, also, cells, held_ms, idle_certain_ms, idle_probable_ms,
    stalled_probable_ms, stalled_potential_ms, underused_ms, low_ms, high_ms, clock_lost_ms
)
WITH moved AS (
    SELECT pair.gpu_id, pair.other_gpu_id, gpu.node_id AS other_node_id
    FROM (SELECT unnest(%(gpus)s::bigint[]) AS gpu_id, unnest(%(other_gpus)s::bigint[]) AS other_gpu_id) AS pair
    JOIN inventory_gpu AS gpu ON gpu.id = pair.other_gpu_id
)
SELECT
    moved.other_node_id,
    moved.other_gpu_id,
    entry.start - make_interval(days => %(shift_days)s::int),
    tiled.id,
    entry.cause,
    entry.confidence,
    entry.also,
    entry.cells,
    entry.held_ms,
    entry.idle_certain_ms,
    entry.idle_probable_ms,
    entry.stalled_probable_ms,
    entry.stalled_potential_ms,
    entry.underused_ms,
    entry.low_ms,
    entry.high_ms,
    entry.clock_lost_ms
FROM diagnosis_causeentry AS entry
JOIN moved USING (gpu_id)
JOIN jobs_job AS job ON job.id = entry.job_id
JOIN jobs_job AS tiled ON tiled.key = job.key || '-' || %(shift_days)s
WHERE entry.start >= %(source_start)s AND entry.start < %(source_end)s
