-- One row: a GPU, holder, state and clock hour of which entries and adjustments have other milliseconds than runs; and
--      how many more.
-- In:  node (id), start, end (timestamptz), start_ms, end_ms (the same), hour_ms, states (names as in state_ms).
-- Again: safe, it only reads.
WITH spent AS (
    SELECT node_id, gpu_id, job_id, state, start, gpu_ms FROM ledger_entry
    UNION ALL
    SELECT node_id, gpu_id, job_id, state, start, gpu_ms FROM ledger_adjustment
),
of_hour AS (
    SELECT gpu_id, job_id, state, date_trunc('hour', start, 'UTC') AS hour, gpu_ms
    FROM spent
    WHERE node_id = %(node)s
      AND start >= %(start)s
      AND start < %(end)s
    UNION ALL
    SELECT
        run.gpu_id,
        run.job_id,
        part.state,
        to_timestamp((run.cut_ms - run.cut_ms %% %(hour_ms)s) / 1000),
        -part.gpu_ms
    FROM ledger_run AS run
    CROSS JOIN unnest(%(states)s::text[], run.state_ms) AS part (state, gpu_ms)
    WHERE run.node_id = %(node)s
      AND run.cut_ms >= %(start_ms)s
      AND run.cut_ms < %(end_ms)s
)
SELECT gpu_id, job_id, state, hour, sum(gpu_ms)::bigint
FROM of_hour
GROUP BY gpu_id, job_id, state, hour
HAVING sum(gpu_ms) <> 0
ORDER BY hour, gpu_id, job_id, state
