-- One row: of an episode (its place in the arrays) and a GPU of its job, from when to when the GPU was idle within it,
-- the holder's share of that time in ms, its memory in bytes meanwhile (null: not read), and for how many ms it was idle.
-- In:  job_ids, since_ms, until_ms (bigint[]): as long as each other; idle, memory_ms, memory_sum (int): places in
--      state_ms and figures.
-- Again: safe, it only reads.
SELECT
    asked.place,
    run.gpu_id,
    min(greatest(run.start_ms, asked.since_ms)),
    max(least(run.end_ms, asked.until_ms)),
    round(sum(spent.held_ms * within.share))::bigint,
    sum(run.figures[%(memory_sum)s]) / nullif(sum(run.figures[%(memory_ms)s]), 0),
    sum(least(run.end_ms, asked.until_ms) - greatest(run.start_ms, asked.since_ms))::bigint
FROM unnest(%(job_ids)s::bigint[], %(since_ms)s::bigint[], %(until_ms)s::bigint[])
    WITH ORDINALITY AS asked (job_id, since_ms, until_ms, place)
JOIN ledger_run AS run
    ON run.job_id = asked.job_id
    -- no cut is longer than an hour: by the index hour_runs_by_job
    AND run.cut_ms > asked.since_ms - 3600000
    AND run.cut_ms < asked.until_ms
    AND run.end_ms > asked.since_ms
    AND run.start_ms < asked.until_ms
    AND run.condition = 'quiet'
    AND run.state_ms[%(idle)s] > 0
CROSS JOIN LATERAL (
    SELECT sum(state.ms) AS held_ms
    FROM unnest(run.state_ms) AS state (ms)
) AS spent
CROSS JOIN LATERAL (
    SELECT
        (least(run.end_ms, asked.until_ms) - greatest(run.start_ms, asked.since_ms))::double precision
        / (run.end_ms - run.start_ms) AS share
) AS within
GROUP BY
    asked.place,
    run.gpu_id
