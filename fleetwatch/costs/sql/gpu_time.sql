-- The view gpu_time, for people and BI tools (docs/sql.md). One row: GPU time of one GPU in one
-- hour cut, of one holder, in one state, and its dollars. Sums of these are every figure of whole
-- hours.
CREATE OR REPLACE VIEW gpu_time AS
SELECT
    entry.start,
    (entry.start AT TIME ZONE COALESCE(organisation.time_zone, 'UTC'))::date AS day,
    node.name AS node,
    COALESCE(parent.uuid, gpu.uuid) AS gpu,
    CASE WHEN parent.id IS NOT NULL THEN gpu.uuid END AS instance,
    model.name AS gpu_model,
    job.key AS job,
    job.name AS job_name,
    job."user" AS user_name,
    CASE
        WHEN entry.job_id IS NULL THEN ''
        WHEN team.slug IS NOT NULL THEN team.slug
        WHEN owned.is_named THEN '(unmapped)'
        ELSE '(none)'
    END AS team,
    owned.project,
    owned.cost_centre,
    entry.state,
    entry.kind,
    entry.reason,
    entry.tier,
    entry.tier IN ('certain', 'probable') AS is_wasted,
    entry.gpu_ms,
    entry.energy_j,
    rate.usd_per_gpu_hour,
    rate.is_example AS is_example_rate,
    entry.gpu_ms * rate.usd_per_gpu_hour / 3600000 AS usd
FROM ledger_entry AS entry
JOIN inventory_node AS node ON node.id = entry.node_id
JOIN inventory_gpu AS gpu ON gpu.id = entry.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN inventory_gpumodel AS model ON model.id = COALESCE(parent.model_id, gpu.model_id)
LEFT JOIN jobs_job AS job ON job.id = entry.job_id
LEFT JOIN costs_owned AS owned
    ON  owned.job_id = entry.job_id
    AND owned.valid_from <= entry.start
    AND owned.valid_to > entry.start
LEFT JOIN accounts_team AS team ON team.id = owned.team_id
LEFT JOIN costs_gpurate AS rate
    ON  rate.gpu_id = entry.gpu_id
    AND rate.valid_from <= entry.start
    AND (rate.valid_to IS NULL OR rate.valid_to > entry.start)
LEFT JOIN accounts_organisation AS organisation ON organisation.id = 1
