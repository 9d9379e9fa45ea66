-- The view gpu_five_minutes, for people and BI tools (docs/sql.md): telemetry_daymatrix.cells
-- unpacked, a byte each. One row: five minutes of one GPU from `start` on, and the mean of one
-- metric; where nothing was observed there is none.
CREATE OR REPLACE VIEW gpu_five_minutes AS
SELECT
    cell.start,
    node.name AS node,
    gpu.uuid AS gpu,
    cell.metric,
    cell.step * CASE cell.metric WHEN 'power' THEN 8.0 ELSE 0.004 END AS value
FROM (
    SELECT
        matrix.node_id,
        matrix.metric,
        listed.gpu_id::bigint AS gpu_id,
        matrix.day::timestamp AT TIME ZONE 'UTC' + place * interval '5 minutes' AS start,
        get_byte(matrix.cells, (listed.number::int - 1) * 288 + place) AS step
    FROM telemetry_daymatrix AS matrix
    CROSS JOIN jsonb_array_elements_text(matrix.gpu_ids) WITH ORDINALITY AS listed (gpu_id, number)
    CROSS JOIN generate_series(0, 287) AS place
) AS cell
JOIN inventory_node AS node ON node.id = cell.node_id
JOIN inventory_gpu AS gpu ON gpu.id = cell.gpu_id
WHERE cell.step <> 255
