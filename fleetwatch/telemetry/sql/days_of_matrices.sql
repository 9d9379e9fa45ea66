-- One row per UTC day with cells of the metric: how many days after the first, the ids of GPUs (a list per node, as JSON), and their rows of cells,
-- one after the other.
-- In:  metric, first (a date), days.
-- Again: reads only.
SELECT
    day - %(first)s::date,
    jsonb_agg(gpu_ids ORDER BY node_id),
    string_agg(cells, ''::bytea ORDER BY node_id)
FROM telemetry_daymatrix
WHERE metric = %(metric)s
  AND day >= %(first)s::date
  AND day < %(first)s::date + %(days)s::int
GROUP BY day
