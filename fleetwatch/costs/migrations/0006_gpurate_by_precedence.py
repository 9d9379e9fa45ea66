"""The views costs_gpurate and costs_alike: GPUs, nodes, pools, classes and regions have rates too."""

from importlib import import_module

from django.db import migrations

# One row: a GPU and a span of time in which one rate holds for it.
# Of the rates that could hold, each keeps what none that is more specific covers, so spans of one GPU are disjoint:
# 1 the GPU's, 2 its node's, 3 the pool's, 4 the model's for class and region, 5 for the class, 6 for the region, 7 for all.
# A MIG instance is a part of its parent: it takes the parent's rate, model and node.
GPURATE = """
CREATE OR REPLACE VIEW costs_gpurate AS
WITH priced_gpu AS NOT MATERIALIZED (
    SELECT
        gpu.id AS gpu_id,
        COALESCE(parent.id, gpu.id) AS whole_id,
        COALESCE(parent.node_id, gpu.node_id) AS node_id,
        COALESCE(parent.model_id, gpu.model_id) AS model_id
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
),
priced AS NOT MATERIALIZED (
    SELECT *, tstzrange(valid_from, valid_to) AS span FROM costs_rate
),
place AS NOT MATERIALIZED (
    SELECT *, tstzrange(valid_from, valid_to) AS span FROM costs_nodeplace
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

# One row: a GPU, the GPU that stands for all of its node that have one price with it (those of one model; a GPU that
# has or had a rate of its own stands alone; instances have their parent's), and the digest of the whole node's grouping.
ALIKE = """
CREATE OR REPLACE VIEW costs_alike AS
SELECT
    gpu.id AS gpu_id,
    gpu.node_id,
    min(gpu.id) OVER (PARTITION BY gpu.node_id, COALESCE(parent.model_id, gpu.model_id), own.gpu_id) AS stands_for_id,
    md5(string_agg(
        gpu.id::text || ':' || COALESCE(parent.model_id, gpu.model_id, 0)::text || COALESCE(':' || own.gpu_id::text, ''), ','
    ) OVER (
        PARTITION BY gpu.node_id ORDER BY gpu.id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )) AS digest
FROM inventory_gpu AS gpu
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN (SELECT DISTINCT gpu_id FROM costs_rate WHERE gpu_id IS NOT NULL) AS own ON own.gpu_id = COALESCE(parent.id, gpu.id)
"""

_BEFORE = import_module("fleetwatch.costs.migrations.0002_gpurate_view")
_ALIKE_BEFORE = import_module("fleetwatch.costs.migrations.0004_current_sums_view")


def replacing(statement: str) -> str:
    return statement.replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)


class Migration(migrations.Migration):
    dependencies = [("costs", "0005_rates_of_gpus_pools_and_classes")]

    operations = [
        migrations.RunSQL(GPURATE, replacing(_BEFORE.CREATE)),
        migrations.RunSQL(ALIKE, replacing(_ALIKE_BEFORE.CREATE_ALIKE)),
    ]
