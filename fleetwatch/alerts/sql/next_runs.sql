-- What each GPU was seen to do first from a moment on: the place in the arrays, the job that held it then (NULL:
-- nobody), and its condition. A GPU that nobody saw within that time has no row.
-- In:  gpu_ids, from_ms (bigint[]): as long as each other; within_ms (bigint): how far is looked.
-- Again: safe, it only reads.
SELECT DISTINCT ON (asked.place)
    asked.place,
    next_run.job_id,
    next_run.condition
FROM unnest(%(gpu_ids)s::bigint[], %(from_ms)s::bigint[]) WITH ORDINALITY AS asked (gpu_id, from_ms, place)
CROSS JOIN LATERAL (
    SELECT
        run.job_id,
        run.condition,
        run.cut_ms,
        run.start_ms,
        -- GPU by GPU through hour_runs_by_gpu, never the whole table
        generate_series(1, 1) AS fence
    FROM ledger_run AS run
    WHERE run.gpu_id = asked.gpu_id
      AND run.cut_ms > asked.from_ms - 3600000
      AND run.cut_ms < asked.from_ms + %(within_ms)s::bigint
      AND run.start_ms >= asked.from_ms
      AND run.condition <> 'unobserved'
) AS next_run
ORDER BY
    asked.place,
    next_run.cut_ms,
    next_run.start_ms
