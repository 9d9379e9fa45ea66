-- Every part of a run, of jobs that had a GPU in one of these conditions in the period, and of those that are asked for:
-- which job and GPU, what it did (as a place in `conditions`), from when to when, and whether the GPU was idle in it.
-- In:  conditions (text[]): all there are; wanted (text[]): those that make a job a candidate; subjects (text[]): keys
--      of jobs; idle (int): the place of idle in state_ms; start_ms, end_ms (bigint): the period.
-- Again: safe, it only reads.
WITH candidate AS MATERIALIZED (
    SELECT run.job_id
    FROM inventory_node AS node
    CROSS JOIN LATERAL (
        SELECT part.job_id
        FROM ledger_run AS part
        WHERE part.node_id = node.id
          AND part.end_ms > %(start_ms)s
          AND part.start_ms < %(end_ms)s
          AND part.job_id IS NOT NULL
          AND part.condition = ANY(%(wanted)s)
        -- a fence: node by node through run_by_node_end, never the whole table
        OFFSET 0
    ) AS run
    WHERE node.last_ms > %(start_ms)s
    UNION
    SELECT job.id
    FROM jobs_job AS job
    WHERE job.key = ANY(%(subjects)s)
)
SELECT
    part.job_id,
    part.gpu_id,
    array_position(%(conditions)s::text[], part.condition::text) - 1,
    part.start_ms,
    part.end_ms,
    part.state_ms[%(idle)s] > 0
FROM candidate
JOIN ledger_run AS part
    ON part.job_id = candidate.job_id
    AND part.end_ms > %(start_ms)s
    AND part.start_ms < %(end_ms)s
