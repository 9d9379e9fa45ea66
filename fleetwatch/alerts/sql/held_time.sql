-- One row: of an episode (its place in the arrays) and a GPU that its job held in it: from when to when, and of that
-- time the milliseconds that were judged (in one of the states `judged`) and lost (in one of `lost`), as the holder's share.
-- In:  job_ids, since_ms, until_ms (bigint[]): as long as each other; judged, lost (int[]): places in state_ms.
-- Again: safe, it only reads.
SELECT
    asked.place,
    run.gpu_id,
    min(greatest(run.start_ms, asked.since_ms)),
    max(least(run.end_ms, asked.until_ms)),
    sum(spent.judged_ms * within.share),
    sum(spent.lost_ms * within.share)
FROM unnest(%(job_ids)s::bigint[], %(since_ms)s::bigint[], %(until_ms)s::bigint[])
    WITH ORDINALITY AS asked (job_id, since_ms, until_ms, place)
JOIN ledger_run AS run
    ON run.job_id = asked.job_id
    -- no cut is longer than an hour: by the index hour_runs_by_job
    AND run.cut_ms > asked.since_ms - 3600000
    AND run.cut_ms < asked.until_ms
    AND run.end_ms > asked.since_ms
    AND run.start_ms < asked.until_ms
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(state.ms) FILTER (WHERE state.number = ANY(%(judged)s::int[])), 0) AS judged_ms,
        coalesce(sum(state.ms) FILTER (WHERE state.number = ANY(%(lost)s::int[])), 0) AS lost_ms
    FROM unnest(run.state_ms) WITH ORDINALITY AS state (ms, number)
) AS spent
CROSS JOIN LATERAL (
    SELECT
        (least(run.end_ms, asked.until_ms) - greatest(run.start_ms, asked.since_ms))::double precision
        / (run.end_ms - run.start_ms) AS share
) AS within
GROUP BY
    asked.place,
    run.gpu_id
HAVING sum(spent.judged_ms) > 0
