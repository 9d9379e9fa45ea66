-- The view gpu_causes, for people and BI tools (docs/sql.md). One row: GPU time of one GPU, hour
-- cut and job whose primary cause is this one. `minutes`: which five minutes of the clock hour,
-- by their first. `low_ms` to `high_ms` could have been recovered.
CREATE OR REPLACE VIEW gpu_causes AS
SELECT
    entry.start,
    (entry.start AT TIME ZONE COALESCE(organisation.time_zone, 'UTC'))::date AS day,
    node.name AS node,
    COALESCE(parent.uuid, gpu.uuid) AS gpu,
    CASE WHEN parent.id IS NOT NULL THEN gpu.uuid END AS instance,
    job.key AS job,
    job.name AS job_name,
    job."user" AS user_name,
    team.slug AS team,
    entry.cause,
    ('{none,low,medium,high}'::text[])[1 + entry.confidence] AS confidence,
    entry.also,
    ARRAY(
        SELECT 5 * place FROM generate_series(0, 11) AS place WHERE entry.cells >> place & 1 = 1
    ) AS minutes,
    entry.held_ms,
    entry.idle_certain_ms,
    entry.idle_probable_ms,
    entry.stalled_probable_ms,
    entry.stalled_potential_ms,
    entry.underused_ms,
    entry.low_ms,
    entry.high_ms,
    rate.usd_per_gpu_hour,
    rate.is_example AS is_example_rate,
    (entry.idle_certain_ms + entry.idle_probable_ms + entry.stalled_probable_ms)
        * rate.usd_per_gpu_hour / 3600000 AS wasted_usd,
    entry.low_ms * rate.usd_per_gpu_hour / 3600000 AS low_usd,
    entry.high_ms * rate.usd_per_gpu_hour / 3600000 AS high_usd
FROM diagnosis_causeentry AS entry
JOIN inventory_node AS node ON node.id = entry.node_id
JOIN inventory_gpu AS gpu ON gpu.id = entry.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
JOIN jobs_job AS job ON job.id = entry.job_id
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
