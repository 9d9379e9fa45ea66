-- One row per ledger entry of the posted day, again so many days earlier: on another GPU of the same model, of the tiled job.
-- In:  source_start, source_end (timestamptz), shift_days, gpus and other_gpus (ids, place by place).
-- Again: not safe; the caller asks first whether the day has entries, in the same transaction.
INSERT INTO ledger_entry (
    node_id, gpu_id, start, job_id, state, kind, reason, signal, efficiency_source, tier, policy_id, gpu_ms, energy_j
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
    entry.state,
    entry.kind,
    entry.reason,
    entry.signal,
    entry.efficiency_source,
    entry.tier,
    entry.policy_id,
    entry.gpu_ms,
    entry.energy_j
FROM ledger_entry AS entry
JOIN moved USING (gpu_id)
LEFT JOIN jobs_job AS job ON job.id = entry.job_id
LEFT JOIN jobs_job AS tiled ON tiled.key = job.key || '-' || %(shift_days)s
WHERE entry.start >= %(source_start)s AND entry.start < %(source_end)s
ORDER BY moved.other_node_id, entry.start
