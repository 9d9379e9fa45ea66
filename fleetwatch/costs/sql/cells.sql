-- One row: GPU time of one group, bucket, state and tier under one rate, of all spans; follows spans.sql, whose parameters it takes.
-- Again: safe, it only reads.
SELECT
    bucket,
    key_id,
    key_text,
    is_held,
    team_id,
    owner_text,
    is_named,
    state,
    tier,
    is_busy_only,
    usd_per_gpu_hour,
    is_example,
    sum(gpu_ms)::bigint AS gpu_ms,
    sum(energy_j) AS energy_j,
    sum(energy_ms)::bigint AS energy_ms
FROM placed
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
