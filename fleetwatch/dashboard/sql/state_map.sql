-- One row per physical GPU and step of time: the state that took most of it.
-- In:  start, end (timestamptz), start_ms (of start), step_ms.
-- Again: only reads.
WITH step_state AS (
    SELECT
        coalesce(gpu.parent_id, gpu.id) AS gpu_id,
        floor((extract(epoch FROM entry.start) * 1000 - %(start_ms)s) / %(step_ms)s)::int AS step,
        entry.state,
        sum(entry.gpu_ms) AS gpu_ms
    FROM ledger_entry AS entry
    JOIN inventory_gpu AS gpu ON gpu.id = entry.gpu_id
    WHERE entry.start >= %(start)s
      AND entry.start <  %(end)s
    GROUP BY 1, 2, 3
)
SELECT DISTINCT ON (gpu_id, step)
    gpu_id,
    step,
    state
FROM step_state
ORDER BY gpu_id, step, gpu_ms DESC, state
