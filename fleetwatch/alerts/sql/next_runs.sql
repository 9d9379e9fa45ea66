-- What each GPU was seen to do first from a moment on: the place in the arrays, the job that held it then (NULL:
-- nobody), and its condition. A GPU that nobody saw since has no row.
-- In:  gpu_ids, from_ms (bigint[]): as long as each other.
-- Again: safe, it only reads.
SELECT
    asked.place,
    next_run.job_id,
    next_run.condition
FROM unnest(%(gpu_ids)s::bigint[], %(from_ms)s::bigint[]) WITH ORDINALITY AS asked (gpu_id, from_ms, place)
CROSS JOIN LATERAL (
    SELECT
        run.job_id,
        run.condition
    FROM ledger_run AS run
    WHERE run.gpu_id = asked.gpu_id
      AND run.cut_ms > asked.from_ms - 3600000
      AND run.start_ms >= asked.from_ms
      AND run.condition <> 'unobserved'
    -- cut by cut, by the index hour_runs_by_gpu, no further than to the first
    ORDER BY
        run.cut_ms,
        run.start_ms
    LIMIT 1
) AS next_run
