-- The view gpu_runs, for people and BI tools (docs/sql.md): ledger_run with its arrays unpacked.
-- One row: the part of a run within one hour cut. A mean of what was not read is NULL.
CREATE OR REPLACE VIEW gpu_runs AS
SELECT
    to_timestamp(run.start_ms / 1000.0) AS start,
    to_timestamp(run.end_ms / 1000.0) AS until,
    node.name AS node,
    COALESCE(parent.uuid, gpu.uuid) AS gpu,
    CASE WHEN parent.id IS NOT NULL THEN gpu.uuid END AS instance,
    job.key AS job,
    run.condition,
    run.continues,
    run.state_ms[1] AS useful_ms,
    run.state_ms[2] AS underused_ms,
    run.state_ms[3] AS stalled_ms,
    run.state_ms[4] AS idle_ms,
    run.state_ms[5] AS starting_ms,
    run.state_ms[6] AS orphaned_ms,
    run.state_ms[7] AS free_ms,
    run.state_ms[8] AS unavailable_ms,
    run.state_ms[9] AS unobserved_ms,
    run.figures[2] / NULLIF(run.figures[1], 0) AS active_ratio,
    run.figures[4] / NULLIF(run.figures[3], 0) AS power_w,
    run.figures[6] / NULLIF(run.figures[5], 0) AS memory_used_bytes
FROM ledger_run AS run
JOIN inventory_node AS node ON node.id = run.node_id
JOIN inventory_gpu AS gpu ON gpu.id = run.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN jobs_job AS job ON job.id = run.job_id
