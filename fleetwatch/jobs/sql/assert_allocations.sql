-- Adds asserted time to allocations; one row per allocation that is new or grew, with the time that was not asserted before.
-- In:  rows (JSON array: gpu_id, job_id, source, share, asserted as int8multirange text), each allocation once.
-- Again: safe; a union does not care for order, and an assertion that says nothing new writes nothing.
INSERT INTO jobs_allocation AS kept (gpu_id, job_id, source, share, asserted)
SELECT
    gpu_id, job_id, source, share, asserted::int8multirange
FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (
    gpu_id bigint, job_id bigint, source text, share double precision, asserted text
)
ON CONFLICT (gpu_id, job_id, source, share) DO UPDATE SET
    asserted = kept.asserted + excluded.asserted
WHERE NOT kept.asserted @> excluded.asserted
RETURNING
    kept.gpu_id,
    -- the row as it was when the statement began; batches of one node are stored one after the other
    kept.asserted - coalesce((SELECT former.asserted FROM jobs_allocation AS former WHERE former.id = kept.id), '{}') AS grown
