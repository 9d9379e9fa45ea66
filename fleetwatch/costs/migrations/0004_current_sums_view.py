"""The view costs_current_sum: which sums of days still say what the ledger says."""

from django.db import migrations

# The versions of the clock hours that [start, until) touches, out of those of three UTC days from start's on
# (a day of 25 h that begins at half past may touch three); where no version was counted it is 0.
CREATE_VERSIONS = """
CREATE FUNCTION costs_versions(
    first_day bigint[], second_day bigint[], third_day bigint[], start timestamptz, until timestamptz
) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT (
        COALESCE(first_day, array_fill(0::bigint, ARRAY[24]))
        || COALESCE(second_day, array_fill(0::bigint, ARRAY[24]))
        || COALESCE(third_day, array_fill(0::bigint, ARRAY[24]))
    )[
        1 + extract(hour FROM start AT TIME ZONE 'UTC')::int
        : ceil(extract(epoch FROM until - date_trunc('day', start, 'UTC')) / 3600)::int
    ]
$$
"""
DROP_VERSIONS = "DROP FUNCTION costs_versions(bigint[], bigint[], bigint[], timestamptz, timestamptz)"

# One row: a GPU, the GPU that stands for all of its node that have one price with it (those of one model; instances
# have their parent's), and the digest of the whole node's grouping.
CREATE_ALIKE = """
CREATE VIEW costs_alike AS
SELECT
    gpu.id AS gpu_id,
    gpu.node_id,
    min(gpu.id) OVER (PARTITION BY gpu.node_id, COALESCE(parent.model_id, gpu.model_id)) AS stands_for_id,
    md5(string_agg(gpu.id::text || ':' || COALESCE(parent.model_id, gpu.model_id, 0)::text, ',') OVER (
        PARTITION BY gpu.node_id ORDER BY gpu.id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )) AS digest
FROM inventory_gpu AS gpu
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
"""
DROP_ALIKE = "DROP VIEW costs_alike"

# One row: a node's day [start, until) whose sum is as new as its entries.
CREATE_CURRENT = """
CREATE VIEW costs_current_sum AS
SELECT summed.node_id, summed.start, summed.until
FROM costs_summedday AS summed
JOIN (SELECT DISTINCT node_id, digest FROM costs_alike) AS alike
    ON alike.node_id = summed.node_id AND alike.digest = summed.alike
LEFT JOIN ledger_nodeday AS first_day
    ON first_day.node_id = summed.node_id AND first_day.day = (summed.start AT TIME ZONE 'UTC')::date
LEFT JOIN ledger_nodeday AS second_day
    ON second_day.node_id = summed.node_id AND second_day.day = (summed.start AT TIME ZONE 'UTC')::date + 1
LEFT JOIN ledger_nodeday AS third_day
    ON third_day.node_id = summed.node_id AND third_day.day = (summed.start AT TIME ZONE 'UTC')::date + 2
WHERE summed.versions = costs_versions(
    first_day.versions, second_day.versions, third_day.versions, summed.start, summed.until
)
"""
DROP_CURRENT = "DROP VIEW costs_current_sum"


class Migration(migrations.Migration):
    dependencies = [("costs", "0003_sums_of_days"), ("ledger", "0004_versions_of_posted_hours")]

    operations = [
        migrations.RunSQL(CREATE_VERSIONS, DROP_VERSIONS),
        migrations.RunSQL(CREATE_ALIKE, DROP_ALIKE),
        migrations.RunSQL(CREATE_CURRENT, DROP_CURRENT),
    ]
