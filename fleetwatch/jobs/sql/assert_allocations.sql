-- Adds asserted time to allocations; one row per span that was not asserted before: the allocation's GPU, its bounds in ms, half-open.
-- In:  gpus, jobs, sources, shares, asserted (int8multirange text), by position; each allocation once.
-- Again: safe; a union does not care for order, and an assertion that says nothing new writes nothing.
WITH written AS (
    INSERT INTO jobs_allocation AS kept (gpu_id, job_id, source, share, asserted)
    SELECT
        gpu_id, job_id, source, share, asserted::int8multirange
    FROM unnest(
        %(gpus)s::bigint[], %(jobs)s::bigint[], %(sources)b::text[], %(shares)s::double precision[], %(asserted)b::text[]
    ) AS given (gpu_id, job_id, source, share, asserted)
    ON CONFLICT (gpu_id, job_id, source, share) DO UPDATE SET
        asserted = kept.asserted + excluded.asserted
    WHERE NOT kept.asserted @> excluded.asserted
    -- old: the row before, NULL of a new one
    RETURNING new.gpu_id, new.asserted - coalesce(old.asserted, '{}') AS grown
)
SELECT
    gpu_id, lower(span), upper(span)
FROM written, unnest(grown) AS span
