-- One row: GPU time of one kind of GPUs (model, pool, class, region) at one rate, by cut of the ledger, in order: arrays of one length of
--      the cuts (milliseconds since the epoch), of all time, of what a job held and of what nobody saw.
-- In:  start, end (timestamptz, cuts of the ledger); day_starts, day_ends (the zone's days that the interval touches);
--      gpu_model_ids (bigint[]: of these models alone) or NULL.
-- Again: safe, it only reads. Hours of summed days are read while those are current, entries elsewhere: as in spans.sql.
WITH wanted_gpu AS MATERIALIZED (
    SELECT gpu.id AS gpu_id, gpu.node_id, model.name AS gpu_model, alike.stands_for_id
    FROM inventory_gpu AS gpu
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
    LEFT JOIN inventory_gpumodel AS model ON model.id = COALESCE(parent.model_id, gpu.model_id)
    JOIN costs_alike AS alike ON alike.gpu_id = gpu.id
    WHERE %(gpu_model_ids)s::bigint[] IS NULL
       OR model.id = ANY(%(gpu_model_ids)s::bigint[])
),
calendar AS (SELECT * FROM unnest(%(day_starts)s::timestamptz[], %(day_ends)s::timestamptz[]) AS day (start, "end")),
summed AS MATERIALIZED (
    SELECT current_sum.node_id, current_sum.start, current_sum.until
    FROM costs_current_sum AS current_sum
    JOIN calendar ON calendar.start = current_sum.start AND current_sum.until <= calendar."end"
    JOIN (SELECT DISTINCT node_id, digest FROM costs_alike) AS alike
        ON alike.node_id = current_sum.node_id AND alike.digest = current_sum.alike
),
open_part AS MATERIALIZED (
    SELECT
        node.node_id,
        GREATEST(calendar.start, %(start)s, summed.until) AS start,
        LEAST(calendar."end", %(end)s) AS "end"
    FROM (SELECT DISTINCT node_id FROM wanted_gpu) AS node
    CROSS JOIN calendar
    LEFT JOIN summed ON summed.node_id = node.node_id AND summed.start = calendar.start
    WHERE GREATEST(calendar.start, %(start)s, summed.until) < LEAST(calendar."end", %(end)s)
),
part AS (
    SELECT
        entry.start,
        wanted_gpu.stands_for_id AS gpu_id,
        entry.capacity_ms,
        entry.held_ms,
        entry.unobserved_ms
    FROM open_part
    -- summed within: each part by the index on (node, start)
    CROSS JOIN LATERAL (
        SELECT
            gpu_id,
            start,
            sum(gpu_ms)::bigint AS capacity_ms,
            -- the time of a job that was deleted was held all the same
            COALESCE(sum(gpu_ms) FILTER (
                WHERE job_id IS NOT NULL OR state IN ('useful', 'underused', 'stalled', 'idle', 'starting')
            ), 0)::bigint AS held_ms,
            COALESCE(sum(gpu_ms) FILTER (WHERE state = 'unobserved'), 0)::bigint AS unobserved_ms
        FROM ledger_entry
        WHERE node_id = open_part.node_id
          AND start >= open_part.start
          AND start < open_part."end"
        GROUP BY node_id, gpu_id, start
    ) AS entry
    JOIN wanted_gpu ON wanted_gpu.gpu_id = entry.gpu_id
    UNION ALL
    SELECT hour.start, day_hours.gpu_id, hour.capacity_ms, hour.held_ms, hour.unobserved_ms
    FROM summed
    JOIN costs_dayhours AS day_hours ON day_hours.node_id = summed.node_id AND day_hours.start = summed.start
    CROSS JOIN LATERAL unnest(day_hours.cuts, day_hours.capacity_ms, day_hours.held_ms, day_hours.unobserved_ms)
        AS hour (start, capacity_ms, held_ms, unobserved_ms)
    WHERE hour.start >= %(start)s AND hour.start < %(end)s
),
rate AS MATERIALIZED (
    SELECT * FROM costs_gpurate WHERE gpu_id IN (SELECT stands_for_id FROM wanted_gpu)
),
-- between two changes of rates or places a GPU has one of each: both are looked up once, not for each cut
change AS MATERIALIZED (
    SELECT array_agg(DISTINCT moment ORDER BY moment) AS moments
    FROM (
        SELECT unnest(ARRAY[valid_from, valid_to]) AS moment FROM rate
        UNION ALL
        SELECT unnest(ARRAY[valid_from, valid_to]) FROM costs_nodeplace
        UNION ALL
        SELECT %(start)s
    ) AS every
    WHERE moment >= %(start)s AND moment < %(end)s
),
kind AS MATERIALIZED (
    SELECT
        gpu.gpu_id,
        era.number::int AS era,
        gpu.gpu_model,
        COALESCE(place.pool, '') AS pool,
        COALESCE(place.node_class, '') AS node_class,
        COALESCE(place.region, '') AS region,
        rate.usd_per_gpu_hour,
        dense_rank() OVER (ORDER BY gpu.gpu_model, place.pool, place.node_class, place.region, rate.usd_per_gpu_hour) AS number
    -- grouped, not filtered: one row in 200 would be expected, and the hours joined to so few in a nested loop
    FROM (SELECT stands_for_id AS gpu_id, node_id, gpu_model FROM wanted_gpu GROUP BY 1, 2, 3) AS gpu
    CROSS JOIN change
    CROSS JOIN LATERAL unnest(change.moments) WITH ORDINALITY AS era (moment, number)
    LEFT JOIN costs_nodeplace AS place
        ON  place.node_id = gpu.node_id
        AND place.valid_from <= era.moment
        AND (place.valid_to IS NULL OR place.valid_to > era.moment)
    LEFT JOIN rate
        ON  rate.gpu_id = gpu.gpu_id
        AND rate.valid_from <= era.moment
        AND (rate.valid_to IS NULL OR rate.valid_to > era.moment)
),
hour AS (
    SELECT
        kind.number,
        part.start,
        sum(part.capacity_ms)::bigint AS capacity_ms,
        sum(part.held_ms)::bigint AS held_ms,
        sum(part.unobserved_ms)::bigint AS unobserved_ms
    FROM part
    JOIN kind ON kind.gpu_id = part.gpu_id AND kind.era = width_bucket(part.start, (SELECT moments FROM change))
    GROUP BY kind.number, part.start
)
SELECT
    kind.gpu_model, kind.pool, kind.node_class, kind.region, kind.usd_per_gpu_hour,
    array_agg((extract(epoch FROM hour.start) * 1000)::bigint ORDER BY hour.start) AS cuts_ms,
    array_agg(hour.capacity_ms ORDER BY hour.start) AS capacity_ms,
    array_agg(hour.held_ms ORDER BY hour.start) AS held_ms,
    array_agg(hour.unobserved_ms ORDER BY hour.start) AS unobserved_ms
FROM hour
JOIN (SELECT DISTINCT number, gpu_model, pool, node_class, region, usd_per_gpu_hour FROM kind) AS kind USING (number)
GROUP BY 1, 2, 3, 4, 5
