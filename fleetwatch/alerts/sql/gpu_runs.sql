-- Parts of runs: which GPU, what it did (as a place in `conditions`), and from when to when. Of GPUs that were in the
-- wanted condition in the period, what they did in it and what each was seen to do first afterwards (what it does besides
-- begins and ends nothing); of those that are asked for, all.
-- In:  conditions (text[]): all there are; wanted (text): one of spinning and orphaned; unseen (text[]): those in which
--      nobody saw it; following (int): how many are read after each, NULL = all up to the next; looks_on_ms (bigint): for
--      how long after each all are read in any case (twice: nobody counts them); subjects (text[]): UUIDs; start_ms,
--      end_ms (bigint): the period.
-- Again: safe, it only reads. Runs of one GPU that no job holds overlap no others of it.
WITH subject AS MATERIALIZED (
    SELECT gpu.id
    FROM inventory_gpu AS gpu
    WHERE gpu.uuid = ANY(%(subjects)s)
),
trouble AS MATERIALIZED (
    SELECT
        gpu.uuid,
        part.node_id,
        part.gpu_id,
        part.condition,
        part.start_ms,
        part.end_ms,
        lead(part.start_ms, 1, %(end_ms)s) OVER (PARTITION BY gpu.uuid ORDER BY part.start_ms) AS next_ms
    FROM ledger_run AS part
    JOIN inventory_gpu AS gpu ON gpu.id = part.gpu_id
    -- by the index hour_runs_in_trouble
    WHERE part.hour_in_trouble
      AND part.cut_ms > %(start_ms)s - 3600000
      AND part.cut_ms < %(end_ms)s
      AND part.condition = %(wanted)s
      AND part.end_ms > %(start_ms)s
      AND part.start_ms < %(end_ms)s
      AND part.gpu_id NOT IN (SELECT subject.id FROM subject)
),
candidate AS MATERIALIZED (
    SELECT DISTINCT trouble.uuid, trouble.node_id, trouble.gpu_id
    FROM trouble
)
SELECT run.gpu_id, array_position(%(conditions)s::text[], run.condition::text) - 1, run.start_ms, run.end_ms
FROM (
    SELECT trouble.gpu_id, trouble.condition, trouble.start_ms, trouble.end_ms
    FROM trouble
    UNION ALL
    SELECT candidate.gpu_id, seen.condition, seen.start_ms, seen.end_ms
    FROM trouble
    -- one GPU may be several rows, one for each node that it was in
    JOIN candidate ON candidate.uuid = trouble.uuid
    CROSS JOIN LATERAL alerts_runs_after(
        candidate.node_id, candidate.gpu_id, trouble.end_ms, trouble.next_ms, array_append(%(unseen)s::text[], %(wanted)s),
        %(following)s::bigint
    ) AS seen
    UNION ALL
    SELECT candidate.gpu_id, seen.condition, seen.start_ms, seen.end_ms
    FROM trouble
    JOIN candidate ON candidate.uuid = trouble.uuid
    CROSS JOIN LATERAL alerts_runs_after(
        candidate.node_id, candidate.gpu_id, trouble.end_ms,
        least(trouble.next_ms, trouble.end_ms + %(looks_on_ms)s::bigint),
        array_append(%(unseen)s::text[], %(wanted)s), NULL::bigint
    ) AS seen
    WHERE %(looks_on_ms)s::bigint > 0
    UNION ALL
    SELECT told.gpu_id, told.condition, told.start_ms, told.end_ms
    FROM subject
    CROSS JOIN LATERAL (
        -- the fence: GPU by GPU through its runs, never the whole table
        SELECT part.gpu_id, part.condition, part.start_ms, part.end_ms, generate_series(1, 1) AS fence
        FROM ledger_run AS part
        WHERE part.gpu_id = subject.id
          AND part.cut_ms > %(start_ms)s - 3600000
          AND part.cut_ms < %(end_ms)s
          AND part.end_ms > %(start_ms)s
          AND part.start_ms < %(end_ms)s
    ) AS told
) AS run
