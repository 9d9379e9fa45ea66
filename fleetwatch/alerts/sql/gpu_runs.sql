-- Every part of a run, of GPUs that were in one condition in the period, and of those that are asked for: which GPU,
-- what it did (as a place in `conditions`), and from when to when.
-- In:  conditions (text[]): all there are; wanted (text): the one that makes a GPU a candidate, of spinning and orphaned;
--      subjects (text[]): UUIDs; start_ms, end_ms (bigint): the period.
-- Again: safe, it only reads.
WITH candidate AS MATERIALIZED (
    SELECT part.gpu_id
    FROM ledger_run AS part
    WHERE part.condition = %(wanted)s
      AND part.end_ms > %(start_ms)s
      AND part.start_ms < %(end_ms)s
      -- as run_in_trouble has it, word by word
      AND (part.condition IN ('spinning', 'orphaned') OR (part.condition = 'quiet' AND part.state_ms[4] > 0))
    UNION
    SELECT gpu.id
    FROM inventory_gpu AS gpu
    WHERE gpu.uuid = ANY(%(subjects)s)
)
SELECT
    run.gpu_id,
    array_position(%(conditions)s::text[], run.condition::text) - 1,
    run.start_ms,
    run.end_ms
FROM candidate
CROSS JOIN LATERAL (
    SELECT
        part.gpu_id,
        part.condition,
        part.start_ms,
        part.end_ms
    FROM ledger_run AS part
    WHERE part.gpu_id = candidate.gpu_id
      AND part.end_ms > %(start_ms)s
      AND part.start_ms < %(end_ms)s
    -- a fence: GPU by GPU through its runs, never the whole table
    OFFSET 0
) AS run
