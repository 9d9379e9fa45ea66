-- One row: how many nodes' records, allocations and answers have from now on what their batches repeated so far: of the given nodes all of
-- it, of the others that repeat something of the jobs of these keys what they repeat of those.
-- In:  node_ids, with boot_starts and sequences of the batches that they repeated last, by position; keys (text[]): their jobs are locked;
--      now_ms (who speaks from ahead is the newest no longer than until then).
-- Again: safe; time only grows, and what nodes repeat goes on from where it is.
WITH speaking AS (
    SELECT
        node.id,
        node.repeated_from_ms,
        node.repeated_until_ms,
        given.node_id IS NOT NULL AS is_whole,
        LEAST(node.repeated_until_ms, %(now_ms)s::bigint) AS as_of_ms,
        -- of a given node another batch is the newest by now
        COALESCE(given.boot_start_ms, (node.facts_order ->> 0)::bigint) AS boot_start_ms,
        COALESCE(given.sequence, (node.facts_order ->> 1)::bigint) AS sequence
    FROM inventory_node AS node
    LEFT JOIN unnest(%(node_ids)s::bigint[], %(boot_starts)s::bigint[], %(sequences)s::bigint[]) AS given (node_id, boot_start_ms, sequence)
        ON given.node_id = node.id
    WHERE node.repeated_until_ms > node.repeated_from_ms
      AND (
          node.id = ANY(%(node_ids)s::bigint[])
          OR node.id IN (SELECT node_id FROM jobs_jobrecord WHERE key = ANY(%(keys)s::text[]) AND repeated_from_ms IS NOT NULL)
      )
),
word AS MATERIALIZED (
    SELECT
        word.id,
        word.node_id,
        word.job_id,
        GREATEST(word.as_of_ms, speaking.as_of_ms) AS as_of_ms,
        speaking.boot_start_ms,
        speaking.sequence,
        GREATEST(word.held_until_ms, speaking.repeated_until_ms) AS held_until_ms
    FROM speaking
    JOIN jobs_jobrecord AS word ON word.node_id = speaking.id AND word.repeated_from_ms = speaking.repeated_from_ms
    WHERE speaking.is_whole OR word.key = ANY(%(keys)s::text[])
),
-- each of many nodes of one job settles all others: what is written already is left alone
written AS (
    UPDATE jobs_jobrecord AS kept
    SET as_of_ms = word.as_of_ms,
        boot_start_ms = word.boot_start_ms,
        sequence = word.sequence,
        held_until_ms = word.held_until_ms
    FROM word
    WHERE kept.id = word.id
      AND (kept.as_of_ms, kept.boot_start_ms, kept.sequence, kept.held_until_ms)
          <> (word.as_of_ms, word.boot_start_ms, word.sequence, word.held_until_ms)
),
hold AS (
    UPDATE jobs_allocation AS hold
    SET asserted = hold.asserted + int8multirange(int8range(speaking.repeated_from_ms, speaking.repeated_until_ms))
    FROM speaking
    JOIN inventory_gpu AS gpu ON gpu.node_id = speaking.id
    WHERE hold.gpu_id = gpu.id
      AND hold.repeated_from_ms = speaking.repeated_from_ms
      AND (speaking.is_whole OR (speaking.id, hold.job_id) IN (SELECT node_id, job_id FROM word))
      AND NOT hold.asserted @> int8range(speaking.repeated_from_ms, speaking.repeated_until_ms)
),
answer AS (
    UPDATE jobs_sourcereport AS answer
    SET asserted = answer.asserted + int8multirange(int8range(speaking.repeated_from_ms, speaking.repeated_until_ms))
    FROM speaking
    WHERE answer.node_id = speaking.id
      AND answer.repeated_from_ms = speaking.repeated_from_ms
      AND speaking.is_whole
)
SELECT count(*)
FROM speaking
