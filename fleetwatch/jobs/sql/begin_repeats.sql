-- One row: of how many of the given words, holds and answers the node's batches repeat from now on.
-- In:  node_id, digest of what it says; from_ms: the end of the batch that said it, NULL where it says nothing; records (ids); holds: gpu_ids, job_ids, sources, shares; answers: kinds, oks,
--      whys; each by position. The node and the jobs are locked.
-- Again: safe.
WITH word AS (
    UPDATE jobs_jobrecord AS word
    SET repeated_from_ms = %(from_ms)s::bigint
    WHERE word.id = ANY(%(records)s::bigint[])
    RETURNING 1
),
hold AS (
    UPDATE jobs_allocation AS hold
    SET repeated_from_ms = %(from_ms)s::bigint
    FROM unnest(
        %(gpu_ids)s::bigint[], %(job_ids)s::bigint[], %(sources)s::text[], %(shares)s::double precision[]
    ) AS given (gpu_id, job_id, source, share)
    WHERE hold.gpu_id = given.gpu_id
      AND hold.job_id = given.job_id
      AND hold.source = given.source
      AND hold.share IS NOT DISTINCT FROM given.share
      AND upper(hold.asserted) = %(from_ms)s::bigint
      -- naming it on may take its end back
      AND NOT hold.ended && int8range(%(from_ms)s::bigint, NULL)
    RETURNING 1
),
answer AS (
    UPDATE jobs_sourcereport AS answer
    SET repeated_from_ms = %(from_ms)s::bigint
    FROM unnest(%(kinds)s::text[], %(oks)s::boolean[], %(whys)s::text[]) AS given (kind, ok, why)
    WHERE answer.node_id = %(node_id)s::bigint
      AND answer.kind = given.kind
      AND answer.ok = given.ok
      AND answer.why = given.why
      AND upper(answer.asserted) = %(from_ms)s::bigint
    RETURNING 1
),
spoken AS (
    UPDATE inventory_node
    SET words_digest = %(digest)s,
        repeated_from_ms = %(from_ms)s::bigint,
        repeated_until_ms = NULL
    WHERE id = %(node_id)s::bigint
)
SELECT (SELECT count(*) FROM word), (SELECT count(*) FROM hold), (SELECT count(*) FROM answer)
