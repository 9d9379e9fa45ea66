-- One row: how many GPUs there are at this moment at one price (NULL = no rate holds), and what of an hour of them is idle, in milliseconds;
--      which GPUs that is, and what of an hour of each (NULL = none).
-- In:  now (timestamptz), now_ms, since_ms (bigint): runs that end after since_ms are current, nodes whose capacity ended before it are gone;
--      idle: the place of that state in state_ms.
-- Again: safe, it only reads.
WITH capacity AS (
    SELECT
        gpu.id AS gpu_id,
        rate.usd_per_gpu_hour,
        rate.is_example
    FROM inventory_gpu AS gpu
    JOIN inventory_node AS node ON node.id = gpu.node_id
    LEFT JOIN costs_gpurate AS rate
        ON  rate.gpu_id = gpu.id
        AND rate.valid_from <= %(now)s
        AND (rate.valid_to IS NULL OR rate.valid_to > %(now)s)
    WHERE gpu.parent_id IS NULL
      AND gpu.first_ms IS NOT NULL
      AND (gpu.retired_ms IS NULL OR gpu.retired_ms > %(now_ms)s)
      -- a silent node's too: it is on the bill as in every period (inventory/silence.py)
      AND GREATEST(node.last_ms, node.silent_ms) > %(since_ms)s
),
recent_run AS (
    -- node by node: the index hour_runs_by_node answers each
    SELECT
        run.gpu_id,
        run.job_id,
        run.condition,
        run.state_ms,
        run.end_ms - run.start_ms AS length_ms,
        run.end_ms = max(run.end_ms) OVER (PARTITION BY run.gpu_id) AS is_newest
    FROM inventory_node AS node
    CROSS JOIN LATERAL (
        SELECT gpu_id, job_id, condition, state_ms, start_ms, end_ms
        FROM ledger_run
        WHERE ledger_run.node_id = node.id
          AND ledger_run.cut_ms > %(since_ms)s - 3600000
          AND ledger_run.end_ms > %(since_ms)s
    ) AS run
),
holding AS (
    -- the weight is below 1 for a shared GPU's holders and for MIG instances: their milliseconds are weighted
    SELECT
        COALESCE(gpu.parent_id, gpu.id) AS gpu_id,
        recent_run.state_ms[%(idle)s] > 0 AS is_idle,
        LEAST(1, (SELECT sum(part.ms)::numeric FROM unnest(recent_run.state_ms) AS part (ms)) / NULLIF(length_ms, 0)) AS weight
    FROM recent_run
    JOIN inventory_gpu AS gpu ON gpu.id = recent_run.gpu_id
    WHERE recent_run.is_newest
      AND recent_run.job_id IS NOT NULL
),
judged_gpu AS (
    SELECT
        COALESCE(gpu.parent_id, gpu.id) AS gpu_id,
        -- a holder that the scheduler names is known, seen or not
        bool_and(recent_run.condition = 'unobserved' AND recent_run.job_id IS NULL) AS is_unobserved
    FROM recent_run
    JOIN inventory_gpu AS gpu ON gpu.id = recent_run.gpu_id
    WHERE recent_run.is_newest
    GROUP BY COALESCE(gpu.parent_id, gpu.id)
),
held_gpu AS (
    SELECT
        gpu_id,
        bool_or(is_idle) AS is_idle,
        LEAST(1, COALESCE(sum(weight) FILTER (WHERE is_idle), 0)) AS idle_weight
    FROM holding
    GROUP BY gpu_id
)
SELECT
    capacity.usd_per_gpu_hour,
    capacity.is_example,
    COALESCE(sum(held_gpu.idle_weight), 0) * 3600000 AS idle_ms,
    count(*) AS gpus,
    count(judged_gpu.gpu_id) AS judged_gpus,
    count(*) FILTER (WHERE judged_gpu.is_unobserved) AS unobserved_gpus,
    count(*) FILTER (WHERE held_gpu.gpu_id IS NOT NULL) AS allocated_gpus,
    count(*) FILTER (WHERE held_gpu.is_idle) AS idle_gpus,
    array_agg(capacity.gpu_id ORDER BY capacity.gpu_id) FILTER (WHERE held_gpu.is_idle) AS idle_gpu_ids,
    array_agg(held_gpu.idle_weight * 3600000 ORDER BY capacity.gpu_id) FILTER (WHERE held_gpu.is_idle) AS idle_gpu_ms
FROM capacity
LEFT JOIN judged_gpu USING (gpu_id)
LEFT JOIN held_gpu USING (gpu_id)
GROUP BY capacity.usd_per_gpu_hour, capacity.is_example
