-- Every part of a run, of jobs that had a GPU in one of these conditions in the period, or of those that are asked for:
-- which job and GPU, what it did (as a place in `conditions`), from when to when, and whether the GPU was idle in it.
-- In:  conditions (text[]): all there are; wanted (text[]): those that make a job a candidate, of spinning and quiet,
--      which counts where the GPU was idle; job_ids (bigint[]): asked for; idle (int): the place of idle in state_ms;
--      start_ms, end_ms (bigint): the period.
-- Again: safe, it only reads.
WITH candidate AS MATERIALIZED (
    SELECT part.job_id
    FROM ledger_run AS part
    -- by the index hour_runs_in_trouble
    WHERE part.hour_in_trouble
      AND part.cut_ms > %(start_ms)s - 3600000
      AND part.cut_ms < %(end_ms)s
      AND part.condition = ANY(%(wanted)s)
      AND (part.condition <> 'quiet' OR part.state_ms[%(idle)s] > 0)
      AND part.end_ms > %(start_ms)s
      AND part.start_ms < %(end_ms)s
      AND part.job_id IS NOT NULL
    UNION
    SELECT unnest(%(job_ids)s::bigint[])
)
SELECT
    run.job_id,
    run.gpu_id,
    array_position(%(conditions)s::text[], run.condition::text) - 1,
    run.start_ms,
    run.end_ms,
    run.state_ms[%(idle)s] > 0
FROM candidate
CROSS JOIN LATERAL (
    SELECT
        part.job_id,
        part.gpu_id,
        part.condition,
        part.start_ms,
        part.end_ms,
        part.state_ms,
        -- job by job through hour_runs_by_job, never the whole table
        generate_series(1, 1) AS fence
    FROM ledger_run AS part
    WHERE part.job_id = candidate.job_id
      AND part.cut_ms > %(start_ms)s - 3600000
      AND part.cut_ms < %(end_ms)s
      AND part.end_ms > %(start_ms)s
      AND part.start_ms < %(end_ms)s
) AS run
