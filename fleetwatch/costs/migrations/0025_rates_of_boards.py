"""The view costs_gpurate: a virtual GPU costs its share of what its board does."""

from importlib import import_module

from django.db import migrations

_BEFORE = import_module("fleetwatch.costs.migrations.0022_rates_go_with_their_gpus")

# As in 0010, where the ladder of who is stronger is told. A virtual GPU has two times. Until board_from (there is none
# where it is NULL) the ladder is that of whole GPUs. From then on rates of its own (levels 1 and 4 to 7) are stronger
# than those of its board (node 9, pool 10, the board's model 11 to 14: x its share, to the micro-dollar), and those than
# its own shipped example (15), which is a share already. A board's example reaches no part of it.
GPURATE = """
CREATE OR REPLACE VIEW costs_gpurate AS
WITH priced_gpu AS NOT MATERIALIZED (
    SELECT
        gpu.id AS gpu_id,
        COALESCE(parent.uuid, gpu.uuid) AS whole_uuid,
        COALESCE(parent.node_id, gpu.node_id) AS node_id,
        model.id AS model_id,
        era.board_id, era.share, era.below, era.span
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
    LEFT JOIN inventory_gpumodel AS model ON model.id = COALESCE(parent.model_id, gpu.model_id)
    CROSS JOIN LATERAL (
        SELECT NULL::bigint AS board_id, NULL::numeric AS share, 0 AS below, tstzrange(NULL, model.board_from) AS span
        WHERE model.board_id IS NULL OR model.board_from IS NOT NULL
        UNION ALL
        SELECT model.board_id, model.board_share, 7, tstzrange(model.board_from, NULL)
        WHERE model.board_id IS NOT NULL
    ) AS era
),
exchange AS NOT MATERIALIZED (
    SELECT
        currency,
        usd_per_unit,
        tstzrange(valid_from, lead(valid_from) OVER (PARTITION BY currency ORDER BY valid_from)) AS span
    FROM costs_exchangerate
),
priced AS NOT MATERIALIZED (
    SELECT
        id, gpu_id, node_id, pool, gpu_model_id, node_class, region, is_example,
        price_per_gpu_hour AS usd_per_gpu_hour,
        tstzrange(valid_from, valid_to) AS span
    FROM costs_rate
    WHERE currency = 'USD'
    UNION ALL
    SELECT
        rate.id, rate.gpu_id, rate.node_id, rate.pool, rate.gpu_model_id, rate.node_class, rate.region, rate.is_example,
        rate.price_per_gpu_hour * exchange.usd_per_unit,
        tstzrange(rate.valid_from, rate.valid_to) * exchange.span
    FROM costs_rate AS rate
    JOIN exchange ON exchange.currency = rate.currency
    WHERE rate.currency <> 'USD'
),
place AS NOT MATERIALIZED (
    SELECT node_id, pool, node_class, region, tstzrange(valid_from, valid_to) AS span FROM costs_nodeplace
),
candidate AS (
    SELECT
        priced_gpu.gpu_id, 1 AS level, rate.id AS rate_id, rate.usd_per_gpu_hour, rate.is_example,
        rate.span * priced_gpu.span AS span
    FROM priced_gpu
    JOIN inventory_gpu AS rated ON rated.uuid = priced_gpu.whole_uuid
    JOIN priced AS rate ON rate.gpu_id = rated.id
    UNION ALL
    SELECT
        priced_gpu.gpu_id, 2 + priced_gpu.below, rate.id,
        COALESCE(round(rate.usd_per_gpu_hour * priced_gpu.share, 6), rate.usd_per_gpu_hour), rate.is_example,
        rate.span * priced_gpu.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.node_id = priced_gpu.node_id
    UNION ALL
    SELECT
        priced_gpu.gpu_id, 3 + priced_gpu.below, rate.id,
        COALESCE(round(rate.usd_per_gpu_hour * priced_gpu.share, 6), rate.usd_per_gpu_hour), rate.is_example,
        rate.span * place.span * priced_gpu.span
    FROM priced_gpu
    JOIN place ON place.node_id = priced_gpu.node_id
    JOIN priced AS rate ON rate.pool = place.pool
    WHERE rate.pool <> ''
    UNION ALL
    SELECT
        priced_gpu.gpu_id,
        CASE WHEN rate.region = '' THEN 5 WHEN rate.node_class = '' THEN 6 ELSE 4 END,
        rate.id, rate.usd_per_gpu_hour, rate.is_example, rate.span * place.span * priced_gpu.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_model_id = priced_gpu.model_id
    JOIN place ON place.node_id = priced_gpu.node_id
    WHERE (rate.node_class <> '' OR rate.region <> '')
      AND rate.node_class IN ('', place.node_class)
      AND rate.region IN ('', place.region)
    UNION ALL
    SELECT
        priced_gpu.gpu_id,
        CASE WHEN rate.is_example AND priced_gpu.board_id IS NOT NULL THEN 15 ELSE 7 END,
        rate.id, rate.usd_per_gpu_hour, rate.is_example, rate.span * priced_gpu.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_model_id = priced_gpu.model_id
    WHERE rate.node_class = ''
      AND rate.region = ''
    UNION ALL
    SELECT
        priced_gpu.gpu_id,
        CASE WHEN rate.region = '' THEN 12 WHEN rate.node_class = '' THEN 13 ELSE 11 END,
        rate.id, round(rate.usd_per_gpu_hour * priced_gpu.share, 6), rate.is_example, rate.span * place.span * priced_gpu.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_model_id = priced_gpu.board_id
    JOIN place ON place.node_id = priced_gpu.node_id
    WHERE (rate.node_class <> '' OR rate.region <> '')
      AND rate.node_class IN ('', place.node_class)
      AND rate.region IN ('', place.region)
    UNION ALL
    SELECT
        priced_gpu.gpu_id, 14, rate.id, round(rate.usd_per_gpu_hour * priced_gpu.share, 6), rate.is_example,
        rate.span * priced_gpu.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_model_id = priced_gpu.board_id
    WHERE rate.node_class = ''
      AND rate.region = ''
      AND NOT rate.is_example
)
SELECT
    ranked.gpu_id,
    ranked.rate_id,
    ranked.usd_per_gpu_hour,
    ranked.is_example,
    lower(remaining.span) AS valid_from,
    upper(remaining.span) AS valid_to
FROM (
    SELECT
        candidate.*,
        range_agg(span) OVER (PARTITION BY gpu_id ORDER BY level GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS stronger
    FROM candidate
) AS ranked
CROSS JOIN LATERAL unnest(tstzmultirange(ranked.span) - COALESCE(ranked.stronger, '{}'::tstzmultirange)) AS remaining (span)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('costs', '0024_boards_of_virtual_gpus'),
    ]

    operations = [migrations.RunSQL(GPURATE, _BEFORE.GPURATE)]
