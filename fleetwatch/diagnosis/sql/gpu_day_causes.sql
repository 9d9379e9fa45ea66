-- The view gpu_day_causes, for people and BI tools (docs/sql.md): diagnosis_diagnosedday.spans
-- unpacked, each 52 bytes as diagnosis_span() packs them. One row: what a cause took of one GPU and
-- job in a UTC day. Days that were not summed since their causes changed are left out.
CREATE OR REPLACE VIEW gpu_day_causes AS
SELECT
    day.day,
    node.name AS node,
    COALESCE(parent.uuid, gpu.uuid) AS gpu,
    CASE WHEN parent.id IS NOT NULL THEN gpu.uuid END AS instance,
    job.key AS job,
    (string_to_array(day.causes, ','))[packed_integer(day.spans, 17 + 52 * place, 2)] AS cause,
    ('{none,low,medium,high}'::text[])
        [1 + packed_integer(day.spans, 19 + 52 * place, 2)] AS confidence,
    packed_integer(day.spans, 21 + 52 * place, 4) AS held_ms,
    packed_integer(day.spans, 25 + 52 * place, 4) AS idle_certain_ms,
    packed_integer(day.spans, 29 + 52 * place, 4) AS idle_probable_ms,
    packed_integer(day.spans, 33 + 52 * place, 4) AS stalled_probable_ms,
    packed_integer(day.spans, 37 + 52 * place, 4) AS stalled_potential_ms,
    packed_integer(day.spans, 41 + 52 * place, 4) AS underused_ms,
    packed_integer(day.spans, 45 + 52 * place, 4) AS low_ms,
    packed_integer(day.spans, 49 + 52 * place, 4) AS high_ms
FROM diagnosis_diagnosedday AS day
CROSS JOIN generate_series(0, length(day.spans) / 52 - 1) AS place
JOIN inventory_node AS node ON node.id = day.node_id
JOIN inventory_gpu AS gpu ON gpu.id = packed_integer(day.spans, 1 + 52 * place, 8)
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
JOIN jobs_job AS job ON job.id = packed_integer(day.spans, 9 + 52 * place, 8)
WHERE day.is_summed
