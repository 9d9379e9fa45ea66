-- One row: a fix with the GPU time x dollars per GPU-hour of its series' runs, and that GPU time; without a rate there is no row.
-- In:  fix_ids.
-- Again: safe, it only reads.
SELECT
    fix.id,
    sum(day_sum.held_ms * rate.usd_per_gpu_hour) AS usd_ms,
    sum(day_sum.held_ms) AS held_ms
FROM diagnosis_fix AS fix
JOIN jobs_job AS job ON job."user" = fix."user" AND job.name = fix.job_name
-- summed within: each job by itself, by the index on jobs; its days, for a rate is looked up of each
CROSS JOIN LATERAL (
    SELECT gpu_id, date_trunc('day', start, 'UTC') AS start, sum(held_ms) AS held_ms
    FROM diagnosis_causeentry
    WHERE job_id = job.id
    GROUP BY node_id, 1, 2
) AS day_sum
JOIN costs_gpurate AS rate
    ON  rate.gpu_id = day_sum.gpu_id
    AND rate.valid_from <= day_sum.start
    AND (rate.valid_to IS NULL OR rate.valid_to > day_sum.start)
WHERE fix.id = ANY(%(fix_ids)s::bigint[])
  AND day_sum.held_ms > 0
GROUP BY fix.id
