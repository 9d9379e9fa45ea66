-- The view costs_gpurate: which rate holds when. One row: a GPU and a span [valid_from, valid_to)
-- (NULL = open) in which one rate holds for it, in dollars.
-- Of the rates that could hold, each keeps the time that no stronger one covers, so that spans of a
-- GPU are disjoint. The levels, strongest first:
--   1  the GPU's own, by UUID: it goes with the GPU to other nodes
--   2  its node's
--   3  its node's pool's
--   4  its model's for the node's class and region; 5 for the class; 6 for the region
--   7  its model's for all
-- A MIG instance is a part of its parent: it takes the parent's rate, node and model.
-- A virtual GPU is a part of a board. From board_from on (until then it is as any GPU) its own rates
-- come first (1, 4 to 7), then its share, to the micro-dollar, of the board's:
--   9  the node's
--  10  the pool's
--  11  to 14 the board's model's, as 4 to 7; its shipped example reaches no part of it
--  15  and last its own shipped example, which is a share already
-- A price in another currency is cut where its rate of exchange changes; numeric by numeric is exact.
CREATE OR REPLACE VIEW costs_gpurate AS
WITH ladder AS NOT MATERIALIZED (
    SELECT
        id AS of_model_id, 'whole' AS kind, id AS model_id, NULL::numeric AS share, 0 AS below,
        tstzrange(NULL, board_from) AS span
    FROM inventory_gpumodel
    WHERE board_id IS NULL OR board_from IS NOT NULL
    UNION ALL
    SELECT 0, 'whole', NULL, NULL, 0, tstzrange(NULL, NULL)  -- a GPU whose model is not known
    UNION ALL
    SELECT id, 'part', id, NULL, 0, tstzrange(board_from, NULL)
    FROM inventory_gpumodel WHERE board_id IS NOT NULL
    UNION ALL
    SELECT id, 'board', board_id, board_share, 7, tstzrange(board_from, NULL)
    FROM inventory_gpumodel WHERE board_id IS NOT NULL
),
priced_gpu AS NOT MATERIALIZED (
    SELECT
        gpu.id,
        COALESCE(parent.uuid, gpu.uuid) AS whole_uuid,
        COALESCE(parent.node_id, gpu.node_id) AS node_id,
        ladder.kind, ladder.model_id, ladder.share, ladder.below, ladder.span
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
    JOIN ladder ON ladder.of_model_id = COALESCE(parent.model_id, gpu.model_id, 0)
),
exchange AS NOT MATERIALIZED (
    SELECT
        currency, usd_per_unit,
        tstzrange(
            valid_from, lead(valid_from) OVER (PARTITION BY currency ORDER BY valid_from)
        ) AS span
    FROM costs_exchangerate
),
rate AS NOT MATERIALIZED (
    SELECT
        id, gpu_id, node_id, pool, gpu_model_id, node_class, region, is_example,
        price_per_gpu_hour AS usd, tstzrange(valid_from, valid_to) AS span
    FROM costs_rate
    WHERE currency = 'USD'
    UNION ALL
    SELECT
        rate.id, gpu_id, node_id, pool, gpu_model_id, node_class, region, is_example,
        price_per_gpu_hour * usd_per_unit, tstzrange(valid_from, valid_to) * exchange.span
    FROM costs_rate AS rate
    JOIN exchange ON exchange.currency = rate.currency
    WHERE rate.currency <> 'USD'
),
place AS NOT MATERIALIZED (
    SELECT node_id, pool, node_class, region, tstzrange(valid_from, valid_to) AS span
    FROM costs_nodeplace
),
candidate AS (
    SELECT
        gpu.id AS gpu_id, 1 AS level, share, rate.id, usd, is_example, rate.span * gpu.span AS span
    FROM priced_gpu AS gpu
    JOIN inventory_gpu AS rated ON rated.uuid = gpu.whole_uuid
    JOIN rate ON rate.gpu_id = rated.id
    WHERE kind <> 'board'
    UNION ALL
    SELECT gpu.id, 2 + below, share, rate.id, usd, is_example, rate.span * gpu.span
    FROM priced_gpu AS gpu
    JOIN rate ON rate.node_id = gpu.node_id
    WHERE kind <> 'part'
    UNION ALL
    SELECT gpu.id, 3 + below, share, rate.id, usd, is_example, rate.span * place.span * gpu.span
    FROM priced_gpu AS gpu
    JOIN place ON place.node_id = gpu.node_id
    JOIN rate ON rate.pool = place.pool AND rate.pool <> ''
    WHERE kind <> 'part'
    UNION ALL
    SELECT
        gpu.id,
        below + CASE WHEN rate.region = '' THEN 5 WHEN rate.node_class = '' THEN 6 ELSE 4 END,
        share, rate.id, usd, is_example, rate.span * place.span * gpu.span
    FROM priced_gpu AS gpu
    JOIN place ON place.node_id = gpu.node_id
    JOIN rate ON rate.gpu_model_id = gpu.model_id
    WHERE (rate.node_class <> '' OR rate.region <> '')
      AND rate.node_class IN ('', place.node_class)
      AND rate.region IN ('', place.region)
    UNION ALL
    SELECT
        gpu.id, CASE WHEN kind = 'part' AND is_example THEN 15 ELSE 7 + below END,
        share, rate.id, usd, is_example, rate.span * gpu.span
    FROM priced_gpu AS gpu
    JOIN rate ON rate.gpu_model_id = gpu.model_id
    WHERE rate.node_class = '' AND rate.region = '' AND NOT (kind = 'board' AND is_example)
),
ranked AS (
    SELECT
        candidate.*,
        range_agg(span) OVER (
            PARTITION BY gpu_id ORDER BY level
            GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS stronger
    FROM candidate
)
SELECT
    gpu_id, id AS rate_id, COALESCE(round(usd * share, 6), usd) AS usd_per_gpu_hour, is_example,
    lower(kept.span) AS valid_from, upper(kept.span) AS valid_to
FROM ranked
CROSS JOIN unnest(
    tstzmultirange(ranked.span) - COALESCE(stronger, '{}'::tstzmultirange)
) AS kept (span)
