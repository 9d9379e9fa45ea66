-- One row per written day matrix.
-- In:  nodes, days, metrics, gpu_ids (JSON), cells (by position).
-- Again: the same rows; a matrix of the same node, day and metric is replaced whole.
INSERT INTO telemetry_daymatrix AS stored (node_id, day, metric, gpu_ids, cells)
SELECT
    node_id, day, metric, gpu_ids::jsonb, cells
FROM unnest(
    %(nodes)s::bigint[], %(days)b::date[], %(metrics)b::text[], %(gpu_ids)b::text[], %(cells)b::bytea[]
) AS given (node_id, day, metric, gpu_ids, cells)
ON CONFLICT (node_id, day, metric) DO UPDATE
SET gpu_ids = EXCLUDED.gpu_ids,
    cells = EXCLUDED.cells
RETURNING node_id
