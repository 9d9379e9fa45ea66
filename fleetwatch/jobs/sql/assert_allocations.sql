-- Adds asserted time to allocations; one row per span that is held newly: GPU, job, whether the job's ends have to be looked at again,
-- and the span's bounds in ms, half-open. An allocation that got another start but no time is one row without bounds.
-- In:  gpu_id, job_id, source, share, asserted (int8multirange text), starts (bigint[] text), by position; each allocation once.
-- Sorted, so that two batches with the same allocations wait for each other and do not deadlock.
-- Again: safe; a union does not care for order, and an assertion that says nothing new writes nothing.
WITH written AS (
    INSERT INTO jobs_allocation AS kept (gpu_id, job_id, source, share, asserted, starts, ended)
    SELECT
        gpu_id, job_id, source, share, asserted::int8multirange, starts::bigint[], '{}'
    FROM unnest(
        %(gpu_id)s::bigint[], %(job_id)s::bigint[], %(source)b::text[], %(share)s::double precision[], %(asserted)b::text[], %(starts)b::text[]
    ) AS given (gpu_id, job_id, source, share, asserted, starts)
    ORDER BY gpu_id, job_id, source, share
    ON CONFLICT (gpu_id, job_id, source, share) DO UPDATE SET
        asserted = kept.asserted + excluded.asserted,
        starts = CASE
            WHEN kept.starts @> excluded.starts THEN kept.starts
            ELSE (SELECT array_agg(DISTINCT start_ms ORDER BY start_ms) FROM unnest(kept.starts || excluded.starts) AS start_ms)
        END
    WHERE NOT (kept.asserted @> excluded.asserted AND kept.starts @> excluded.starts)
    -- old: the row before, NULL of a new one. Time asserted after a known end may mean that it was none.
    RETURNING
        new.gpu_id,
        new.job_id,
        old.id IS NULL OR new.starts <> old.starts OR new.ended <> '{}' AS is_to_cut,
        new.asserted - coalesce(old.asserted, '{}') - new.ended AS grown
)
SELECT
    gpu_id, job_id, is_to_cut, lower(span), upper(span)
FROM written
LEFT JOIN LATERAL unnest(grown) AS span ON TRUE
