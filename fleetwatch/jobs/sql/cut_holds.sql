-- Cuts the holds of jobs at the ends known of them; one row per span that is held no longer, or is again: GPU, bounds in ms, half-open.
-- In:  jobs; sources: those whose holds end with their job.
-- A hold ends from a known end to the start of its next run. A source that names it on, in a batch that speaks of later than the
-- one that told the end of this hold, takes that end back: it had lost sight of it. The end of a job is final until it runs again.
-- A node tells it for its own GPUs; where no node stands it is told for all: by accounting, or the books of the cluster. What the
-- cluster's books know of the run past the end that accounting without their right tells, takes that end back.
-- 3: records.Voice.CLUSTER.
-- Again: safe; what it writes is worked out of asserted time, starts and ends alone, which do not depend on the order of batches.
WITH hold AS (
    SELECT
        allocation.id,
        -- an empty range adds nothing
        range_agg(int8range(run_end.end_ms, again.start_ms)) FILTER (
            WHERE run_end.gpu_id IS NULL AND NOT taken_back.by_cluster
               OR run_end.gpu_id IS NOT NULL AND NOT allocation.asserted
                   && int8range(least(greatest(run_end.as_of_ms, run_end.end_ms), again.start_ms), again.start_ms)
        ) AS ended
    FROM jobs_allocation AS allocation
    JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
    JOIN jobs_runend AS run_end
        ON run_end.job_id = allocation.job_id
        AND CASE
            WHEN run_end.gpu_id IS NULL THEN
                allocation.source = ANY(%(sources)b::text[]) AND (run_end.node_id IS NULL OR run_end.node_id = gpu.node_id)
            ELSE run_end.gpu_id = allocation.gpu_id AND run_end.source = allocation.source
        END
    CROSS JOIN LATERAL (
        SELECT coalesce(min(start_ms), 9223372036854775807) AS start_ms
        FROM unnest(allocation.starts) AS start_ms
        -- a run that ended in the moment in which it began is not its own next one
        WHERE start_ms >= run_end.end_ms AND start_ms IS DISTINCT FROM run_end.start_ms
    ) AS again
    CROSS JOIN LATERAL (
        SELECT run_end.node_id IS NULL AND NOT run_end.is_cluster AND EXISTS (
            SELECT
            FROM jobs_job AS job
            JOIN jobs_jobrecord AS books ON books.key = job.said_key AND books.voice >= 3 AND books."user" IN ('', job."user")
            WHERE job.id = run_end.job_id
              AND coalesce((books.facts ->> 'end_ms')::bigint, books.as_of_ms) > run_end.end_ms
              AND coalesce((books.facts ->> 'start_ms')::bigint, 0) <= run_end.end_ms
        ) AS by_cluster
    ) AS taken_back
    WHERE allocation.job_id = ANY(%(jobs)s::bigint[])
    GROUP BY allocation.id
),
cut AS (
    UPDATE jobs_allocation AS kept
    SET ended = coalesce(hold.ended, '{}')
    FROM hold
    WHERE kept.id = hold.id
      AND kept.ended <> coalesce(hold.ended, '{}')
    RETURNING new.gpu_id, ((old.ended - new.ended) + (new.ended - old.ended)) * new.asserted AS changed
)
SELECT
    gpu_id, lower(span), upper(span)
FROM cut, unnest(changed) AS span
