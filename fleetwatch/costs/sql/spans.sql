-- The beginning of cells.sql and packed_cells.sql, no statement of its own: what both read from.
-- One row of placed: GPU time of one group, bucket, state and tier under one rate; every figure is a sum of these.
-- In:  start, end (timestamptz, cuts of the ledger); group_by (user, job, node, gpu, gpu_model) or NULL;
--      owner (team, project, cost_centre: whose it was at that moment, by costs_owned) or NULL, by_owner (whether that matters);
--      step (hour, day) or NULL, zone (IANA name) for days; day_starts, day_ends (the zone's days that the interval
--      touches); by_gpu (whether it matters which GPU it was), use_sums (whether sums of days can answer);
--      what is looked at, NULL = all: node_id, gpu_ids (with their instances), gpu_model_id, job_id, team_id, user_name,
--      is_allocated, has_gpu_model, states, has_team, project, cost_centre ("" = none), is_named (whether jobs without them name a user or an account).
-- Again: safe, it only reads. The tests on parameters are constants to the planner: it folds them away.
WITH change AS (
    -- of everybody's price, and of that of nodes whose labels put them elsewhere
    SELECT NULL::bigint AS node_id, moment
    FROM costs_rate
    CROSS JOIN LATERAL unnest(ARRAY[valid_from, valid_to]) AS change (moment)
    WHERE moment > %(start)s
      AND moment < %(end)s
    UNION ALL
    SELECT NULL, valid_from
    FROM costs_exchangerate
    WHERE valid_from > %(start)s
      AND valid_from < %(end)s
      AND currency IN (SELECT currency FROM costs_rate)
    UNION ALL
    SELECT node_id, valid_from
    FROM costs_nodeplace
    WHERE valid_from > %(start)s
      AND valid_from < %(end)s
    UNION ALL
    -- and of whose a job's time is: by a rule, or where a closed month keeps what was
    SELECT NULL, moment
    FROM costs_mappingrule
    CROSS JOIN LATERAL unnest(ARRAY[valid_from, valid_to]) AS change (moment)
    WHERE %(by_owner)s::boolean
      AND moment > %(start)s
      AND moment < %(end)s
    UNION ALL
    SELECT NULL, "end"
    FROM ledger_closedmonth
    WHERE %(by_owner)s::boolean
      AND "end" > %(start)s
      AND "end" < %(end)s
),
rate_change AS (
    SELECT array_agg(DISTINCT moment ORDER BY moment) AS moments FROM change
),
calendar AS (
    SELECT * FROM unnest(%(day_starts)s::timestamptz[], %(day_ends)s::timestamptz[]) AS day (start, "end")
),
-- nodes on which what is looked at may lie: those of one job, one GPU or a page of GPUs are few
wanted_node AS MATERIALIZED (
    SELECT id AS node_id
    FROM inventory_node
    WHERE %(gpu_ids)s::bigint[] IS NULL
      AND %(job_id)s::bigint IS NULL
      AND (%(node_id)s::bigint IS NULL OR id = %(node_id)s::bigint)
    UNION
    SELECT node_id
    FROM ledger_entry
    WHERE gpu_id IN (SELECT id FROM inventory_gpu WHERE id = ANY(%(gpu_ids)s::bigint[]) OR parent_id = ANY(%(gpu_ids)s::bigint[]))
      AND start >= %(start)s
      AND start < %(end)s
    UNION
    SELECT node_id
    FROM ledger_entry
    WHERE job_id = %(job_id)s::bigint
      AND start >= %(start)s
      AND start < %(end)s
),
-- days of nodes whose sums lie in the interval, under one rate, and still say what the entries say
summed AS MATERIALIZED (
    SELECT current_sum.node_id, current_sum.start, current_sum.until
    FROM costs_current_sum AS current_sum
    JOIN calendar ON calendar.start = current_sum.start
    JOIN wanted_node ON wanted_node.node_id = current_sum.node_id
    WHERE %(use_sums)s::boolean
      AND current_sum.start >= %(start)s
      AND current_sum.until <= LEAST(calendar."end", %(end)s)
      AND NOT EXISTS (
          SELECT FROM change
          WHERE moment > current_sum.start AND moment < current_sum.until
            AND (node_id IS NULL OR node_id = current_sum.node_id)
      )
),
-- and what of each node's days is read from entries
open_part AS MATERIALIZED (
    SELECT
        wanted_node.node_id,
        GREATEST(calendar.start, %(start)s, summed.until) AS start,
        LEAST(calendar."end", %(end)s) AS "end"
    FROM wanted_node
    CROSS JOIN calendar
    LEFT JOIN summed ON summed.node_id = wanted_node.node_id AND summed.start = calendar.start
    WHERE summed.until IS DISTINCT FROM LEAST(calendar."end", %(end)s)
),
alike AS MATERIALIZED (
    SELECT gpu_id, stands_for_id FROM costs_alike
),
part AS (
    SELECT
        entry.node_id,
        CASE WHEN %(by_gpu)s::boolean THEN entry.gpu_id ELSE alike.stands_for_id END AS gpu_id,
        entry.job_id, entry.start, entry.state, entry.tier,
        entry.state = 'useful' AND entry.efficiency_source = 'none' AS is_busy_only,
        entry.gpu_ms, entry.energy_j,
        CASE WHEN entry.energy_j IS NOT NULL THEN entry.gpu_ms ELSE 0 END AS energy_ms
    FROM open_part
    -- OFFSET 0: each part by the index on (node, start); joined freely, few parts may cost a scan of the table
    CROSS JOIN LATERAL (
        SELECT *
        FROM ledger_entry
        WHERE node_id = open_part.node_id
          AND start >= open_part.start
          AND start < open_part."end"
        OFFSET 0
    ) AS entry
    JOIN alike ON alike.gpu_id = entry.gpu_id
    UNION ALL
    SELECT
        day_sum.node_id, day_sum.gpu_id, day_sum.job_id, day_sum.start, day_sum.state, day_sum.tier,
        day_sum.is_busy_only, day_sum.gpu_ms, day_sum.energy_j, day_sum.energy_ms
    FROM summed
    JOIN costs_daysum AS day_sum ON day_sum.node_id = summed.node_id AND day_sum.start = summed.start
),
-- time is summed before it is priced: between two changes of rates a GPU has one, and its entries are many
span AS MATERIALIZED (
    SELECT
        part.gpu_id,
        CASE WHEN %(group_by)s::text = 'node' THEN part.node_id END AS node_id,
        CASE
            WHEN %(by_owner)s::boolean OR %(group_by)s::text IN ('user', 'job') OR %(user_name)s::text IS NOT NULL
            THEN part.job_id
        END AS job_id,
        CASE %(step)s::text
            WHEN 'hour' THEN date_trunc('hour', part.start)
            WHEN 'day' THEN date_trunc('day', part.start, %(zone)s::text)
        END AS bucket,
        part.state,
        part.tier,
        part.is_busy_only,
        width_bucket(part.start, COALESCE((SELECT moments FROM rate_change), '{}'::timestamptz[])) AS era,
        min(part.start) AS moment,
        sum(part.gpu_ms) AS gpu_ms,
        sum(part.energy_j) AS energy_j,
        sum(part.energy_ms) AS energy_ms
    FROM part
    WHERE (%(node_id)s::bigint IS NULL OR part.node_id = %(node_id)s::bigint)
      AND (%(job_id)s::bigint IS NULL OR part.job_id = %(job_id)s::bigint)
      AND (%(is_allocated)s::boolean IS NULL OR (part.job_id IS NOT NULL) = %(is_allocated)s::boolean)
      AND (%(states)s::text[] IS NULL OR part.state = ANY(%(states)s::text[]))
      AND (%(gpu_ids)s::bigint[] IS NULL OR part.gpu_id IN (
          SELECT id FROM inventory_gpu WHERE id = ANY(%(gpu_ids)s::bigint[]) OR parent_id = ANY(%(gpu_ids)s::bigint[])
      ))
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
),
placed AS (
    SELECT
        span.bucket,
        CASE %(group_by)s::text
            WHEN 'job' THEN span.job_id
            WHEN 'node' THEN span.node_id
            WHEN 'gpu' THEN COALESCE(gpu.parent_id, gpu.id)
            WHEN 'gpu_model' THEN COALESCE(parent.model_id, gpu.model_id)
        END AS key_id,
        CASE %(group_by)s::text
            WHEN 'user' THEN job."user"
        END AS key_text,
        CASE
            WHEN %(owner)s::text IS NOT NULL OR %(group_by)s::text IN ('user', 'job') THEN span.job_id IS NOT NULL
            ELSE TRUE
        END AS is_held,
        CASE WHEN %(owner)s::text = 'team' THEN owned.team_id END AS team_id,
        CASE %(owner)s::text
            WHEN 'project' THEN owned.project
            WHEN 'cost_centre' THEN owned.cost_centre
        END AS owner_text,
        CASE WHEN %(owner)s::text IS NOT NULL THEN owned.is_named END AS is_named,
        span.state,
        span.tier,
        span.is_busy_only,
        rate.usd_per_gpu_hour,
        rate.is_example,
        span.gpu_ms,
        span.energy_j,
        span.energy_ms,
        job."user" AS user_name
    FROM span
    JOIN inventory_gpu AS gpu ON gpu.id = span.gpu_id
    LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
    LEFT JOIN jobs_job AS job ON job.id = span.job_id
    LEFT JOIN costs_owned AS owned
        ON  %(by_owner)s::boolean
        AND owned.job_id = span.job_id
        AND owned.valid_from <= span.moment
        AND owned.valid_to > span.moment
    LEFT JOIN costs_gpurate AS rate
        ON  rate.gpu_id = span.gpu_id
        AND rate.valid_from <= span.moment
        AND (rate.valid_to IS NULL OR rate.valid_to > span.moment)
    WHERE (%(gpu_model_id)s::bigint IS NULL OR COALESCE(parent.model_id, gpu.model_id) = %(gpu_model_id)s::bigint)
      AND (%(has_gpu_model)s::boolean IS NULL OR (COALESCE(parent.model_id, gpu.model_id) IS NOT NULL) = %(has_gpu_model)s::boolean)
      AND (%(team_id)s::bigint IS NULL OR owned.team_id = %(team_id)s::bigint)
      AND (%(has_team)s::boolean IS NULL OR (owned.team_id IS NOT NULL) = %(has_team)s::boolean)
      AND (%(project)s::text IS NULL OR owned.project = %(project)s::text)
      AND (%(cost_centre)s::text IS NULL OR owned.cost_centre = %(cost_centre)s::text)
      AND (%(is_named)s::boolean IS NULL OR owned.is_named = %(is_named)s::boolean)
      AND (%(user_name)s::text IS NULL OR job."user" = %(user_name)s::text)
)
