-- One row: GPU time of one kind of GPUs (model, pool, class, region) in one cut of the ledger, what of it a job held,
--      and its dollars at the rates that held, as dollars per GPU-hour x milliseconds (exact, not divided).
-- In:  start, end (timestamptz); gpu_model_ids (bigint[]: models that somebody committed to).
-- Again: safe, it only reads. Time without a rate counts as time and as no dollars.
WITH wanted_gpu AS MATERIALIZED (
    SELECT
        gpu.id AS gpu_id,
        gpu.node_id,
        model.name AS gpu_model,
        alike.stands_for_id
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
    JOIN inventory_gpumodel AS model ON model.id = COALESCE(parent.model_id, gpu.model_id)
    JOIN costs_alike AS alike ON alike.gpu_id = gpu.id
    WHERE model.id = ANY(%(gpu_model_ids)s::bigint[])
),
part AS MATERIALIZED (
    SELECT
        entry.start,
        entry.node_id,
        wanted_gpu.gpu_model,
        wanted_gpu.stands_for_id AS gpu_id,
        sum(entry.gpu_ms) AS capacity_ms,
        COALESCE(sum(entry.gpu_ms) FILTER (WHERE entry.job_id IS NOT NULL), 0) AS held_ms
    FROM (SELECT DISTINCT node_id FROM wanted_gpu) AS node
    -- OFFSET 0: each node by the index on (node, start)
    CROSS JOIN LATERAL (
        SELECT *
        FROM ledger_entry
        WHERE node_id = node.node_id
          AND start >= %(start)s
          AND start < %(end)s
        OFFSET 0
    ) AS entry
    JOIN wanted_gpu ON wanted_gpu.gpu_id = entry.gpu_id
    GROUP BY 1, 2, 3, 4
),
rate AS MATERIALIZED (
    SELECT gpu_id, usd_per_gpu_hour, valid_from, valid_to
    FROM costs_gpurate
    WHERE valid_from < %(end)s
      AND (valid_to IS NULL OR valid_to > %(start)s)
)
SELECT
    part.start,
    part.gpu_model,
    COALESCE(place.pool, '') AS pool,
    COALESCE(place.node_class, '') AS node_class,
    COALESCE(place.region, '') AS region,
    sum(part.capacity_ms)::bigint AS capacity_ms,
    sum(part.held_ms)::bigint AS held_ms,
    COALESCE(sum(part.capacity_ms * rate.usd_per_gpu_hour), 0) AS usd_ms
FROM part
LEFT JOIN costs_nodeplace AS place
    ON  place.node_id = part.node_id
    AND place.valid_from <= part.start
    AND (place.valid_to IS NULL OR place.valid_to > part.start)
LEFT JOIN rate
    ON  rate.gpu_id = part.gpu_id
    AND rate.valid_from <= part.start
    AND (rate.valid_to IS NULL OR rate.valid_to > part.start)
GROUP BY 1, 2, 3, 4, 5
HAVING sum(part.capacity_ms) > 0
