-- One row per ledger entry of the posted day, again so many days earlier: on another GPU of the same model, of the tiled job.
-- In:  tile_entry, tile_job (tile_source.sql), shift_days, gpus and other_gpus (ids, place by place).
-- Again: not safe; the caller asks first whether the day has entries.
INSERT INTO ledger_entry (
    node_id, gpu_id, start, job_id, state, kind, reason, signal, efficiency_source, tier, policy_id, gpu_ms, energy_j
)
WITH moved AS (
    SELECT pair.gpu_id, pair.other_gpu_id, gpu.node_id AS other_node_id
    FROM (SELECT unnest(%(gpus)s::bigint[]) AS gpu_id, unnest(%(other_gpus)s::bigint[]) AS other_gpu_id) AS pair
    JOIN inventory_gpu AS gpu ON gpu.id = pair.other_gpu_id
), tiled AS (
    SELECT job.id AS job_id, other.id AS other_job_id
    FROM tile_job AS job
    JOIN jobs_job AS other ON other.key = job.key || '-' || %(shift_days)s
)
SELECT
    moved.other_node_id,
    moved.other_gpu_id,
    entry.start - make_interval(days => %(shift_days)s::int),
    tiled.other_job_id,
    entry.state,
    entry.kind,
    entry.reason,
    entry.signal,
    entry.efficiency_source,
    entry.tier,
    entry.policy_id,
    entry.gpu_ms,
    entry.energy_j
FROM tile_entry AS entry
JOIN moved USING (gpu_id)
LEFT JOIN tiled USING (job_id)
