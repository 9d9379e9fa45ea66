-- One row: the place of a job in what was asked (from 1 on), and a GPU that it held at that moment, or shortly before it.
-- In:  job_ids, until_ms (bigint[]): as long as each other; stale_ms (bigint): how shortly.
-- Again: safe, it only reads.
SELECT DISTINCT
    asked.place,
    run.gpu_id
FROM unnest(%(job_ids)s::bigint[], %(until_ms)s::bigint[]) WITH ORDINALITY AS asked (job_id, until_ms, place)
JOIN ledger_run AS run
    ON run.job_id = asked.job_id
    -- no cut is longer than an hour: by the index hour_runs_by_job
    AND run.cut_ms > asked.until_ms - %(stale_ms)s - 3600000
    AND run.cut_ms < asked.until_ms
    AND run.end_ms > asked.until_ms - %(stale_ms)s
    AND run.start_ms < asked.until_ms
