"""The view costs_gpurate: prices in other currencies are converted by the rate of exchange of their hours."""

from importlib import import_module

from django.db import migrations

# As in 0006, where the ladder of who is stronger is told. A price in another currency is cut where its rate of
# exchange changes; numeric times numeric is exact.
GPURATE = """
CREATE VIEW costs_gpurate AS
WITH priced_gpu AS NOT MATERIALIZED (
    SELECT
        gpu.id AS gpu_id,
        COALESCE(parent.id, gpu.id) AS whole_id,
        COALESCE(parent.node_id, gpu.node_id) AS node_id,
        COALESCE(parent.model_id, gpu.model_id) AS model_id
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
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
    SELECT priced_gpu.gpu_id, 1 AS level, rate.id AS rate_id, rate.usd_per_gpu_hour, rate.is_example, rate.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_id = priced_gpu.whole_id
    UNION ALL
    SELECT priced_gpu.gpu_id, 2, rate.id, rate.usd_per_gpu_hour, rate.is_example, rate.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.node_id = priced_gpu.node_id
    UNION ALL
    SELECT priced_gpu.gpu_id, 3, rate.id, rate.usd_per_gpu_hour, rate.is_example, rate.span * place.span
    FROM priced_gpu
    JOIN place ON place.node_id = priced_gpu.node_id
    JOIN priced AS rate ON rate.pool = place.pool
    WHERE rate.pool <> ''
    UNION ALL
    SELECT
        priced_gpu.gpu_id,
        CASE WHEN rate.region = '' THEN 5 WHEN rate.node_class = '' THEN 6 ELSE 4 END,
        rate.id, rate.usd_per_gpu_hour, rate.is_example, rate.span * place.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_model_id = priced_gpu.model_id
    JOIN place ON place.node_id = priced_gpu.node_id
    WHERE (rate.node_class <> '' OR rate.region <> '')
      AND rate.node_class IN ('', place.node_class)
      AND rate.region IN ('', place.region)
    UNION ALL
    SELECT priced_gpu.gpu_id, 7, rate.id, rate.usd_per_gpu_hour, rate.is_example, rate.span
    FROM priced_gpu
    JOIN priced AS rate ON rate.gpu_model_id = priced_gpu.model_id
    WHERE rate.node_class = ''
      AND rate.region = ''
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
DROP = "DROP VIEW costs_gpurate"

_BEFORE = import_module("fleetwatch.costs.migrations.0006_gpurate_by_precedence")
# by the name that the column has here; and naming what it reads: Django drops a column with all that depends on it
BEFORE = _BEFORE.GPURATE.replace(
    "SELECT *, tstzrange(valid_from, valid_to) AS span FROM costs_rate",
    "SELECT id, gpu_id, node_id, pool, gpu_model_id, node_class, region, is_example, price_per_gpu_hour AS usd_per_gpu_hour, "
    "tstzrange(valid_from, valid_to) AS span FROM costs_rate",
)


class Migration(migrations.Migration):
    dependencies = [("costs", "0009_prices_in_other_currencies")]

    operations = [migrations.RunSQL(DROP, BEFORE), migrations.RunSQL(GPURATE, DROP)]
