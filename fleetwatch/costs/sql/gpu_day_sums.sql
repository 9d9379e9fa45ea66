-- The view gpu_day_sums, for people and BI tools (docs/sql.md): costs_summedday.spans unpacked,
-- each 42 bytes as costs_span() packs them. One row: GPU time of one GPU in a day of the
-- organisation, of one holder, in one state and tier. Days that the hourly task has not summed
-- since their entries changed are left out.
CREATE OR REPLACE VIEW gpu_day_sums AS
SELECT
    span.start,
    span.until,
    node.name AS node,
    COALESCE(parent.uuid, gpu.uuid) AS gpu,
    CASE WHEN parent.id IS NOT NULL THEN gpu.uuid END AS instance,
    job.key AS job,
    ('{useful,underused,stalled,idle,starting,orphaned,free,unavailable,unobserved}'::text[])
        [1 + span.kind / 8] AS state,
    ('{"",certain,probable,potential}'::text[])[1 + span.kind % 8 / 2] AS tier,
    span.kind % 2 = 1 AS is_busy_only,
    span.gpu_ms,
    span.energy_j,
    span.energy_ms
FROM (
    SELECT
        summed.node_id,
        summed.start,
        summed.until,
        packed_integer(kept.spans, 1 + 42 * place, 8) AS gpu_id,
        packed_integer(kept.spans, 9 + 42 * place, 8) AS job_id,
        packed_integer(kept.spans, 17 + 42 * place, 2) AS kind,
        packed_integer(kept.spans, 19 + 42 * place, 8) AS gpu_ms,
        packed_float(kept.spans, 27 + 42 * place) AS energy_j,
        packed_integer(kept.spans, 35 + 42 * place, 8) AS energy_ms
    FROM costs_current_sum AS summed
    JOIN costs_summedday AS kept ON kept.node_id = summed.node_id AND kept.start = summed.start
    CROSS JOIN generate_series(0, length(kept.spans) / 42 - 1) AS place
) AS span
JOIN inventory_node AS node ON node.id = span.node_id
JOIN inventory_gpu AS gpu ON gpu.id = span.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN jobs_job AS job ON job.id = NULLIF(span.job_id, 0)
