"""The view costs_gpurate: which rate holds for which GPU from when to when."""

from django.db import migrations

# One row: a GPU and a span of time in which one rate holds for it.
# A node's rate beats the model's default within its own span and not beyond, so spans of one GPU are
# disjoint. A MIG instance is a part of its parent: it takes the parent's model and node.
CREATE = """
CREATE VIEW costs_gpurate AS
WITH node_override AS (
    SELECT
        node_id,
        range_agg(tstzrange(valid_from, valid_to)) AS spans
    FROM costs_rate
    WHERE node_id IS NOT NULL
    GROUP BY node_id
),
priced_gpu AS (
    SELECT
        gpu.id AS gpu_id,
        COALESCE(parent.node_id, gpu.node_id) AS node_id,
        COALESCE(parent.model_id, gpu.model_id) AS model_id
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
)
SELECT
    priced_gpu.gpu_id,
    rate.id AS rate_id,
    rate.usd_per_gpu_hour,
    rate.is_example,
    rate.valid_from,
    rate.valid_to
FROM priced_gpu
JOIN costs_rate AS rate ON rate.node_id = priced_gpu.node_id
UNION ALL
SELECT
    priced_gpu.gpu_id,
    rate.id AS rate_id,
    rate.usd_per_gpu_hour,
    rate.is_example,
    lower(span) AS valid_from,
    upper(span) AS valid_to
FROM priced_gpu
JOIN costs_rate AS rate ON rate.gpu_model_id = priced_gpu.model_id
LEFT JOIN node_override ON node_override.node_id = priced_gpu.node_id
CROSS JOIN LATERAL unnest(
    tstzmultirange(tstzrange(rate.valid_from, rate.valid_to)) - COALESCE(node_override.spans, '{}'::tstzmultirange)
) AS remaining (span)
"""
DROP = "DROP VIEW costs_gpurate"


class Migration(migrations.Migration):
    dependencies = [("costs", "0001_initial")]

    operations = [migrations.RunSQL(CREATE, DROP)]
