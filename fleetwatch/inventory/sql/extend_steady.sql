-- One row per given node whose newest facts have the given digest: its last_ms before and after, and the order of its newest batch before.
-- In:  node_id, digest, words (digest of what it says of jobs; '' = something new), boot_start_ms, sequence, start_ms and end_ms of its windows, newest_ms, received_at, agent (one batch per node, by position); gap (ms):
--      without windows for so long a stay has ended, and the next one begins the long way; replayed (ms): Node.is_live;
--      lock_timeout, statement_timeout: they hold until the transaction ends, the first already for the locks taken here.
-- Again: a batch that is not newer than all before it finds no row. Nodes are locked in order of id until the transaction ends.
WITH limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(lock_timeout)s::text, true), set_config('statement_timeout', %(statement_timeout)s::text, true)
), locked AS (
    SELECT given.*
    FROM limits, unnest(
        %(node_id)s::bigint[], %(digest)b::bytea[], %(words)b::bytea[], %(boot_start_ms)s::bigint[], %(sequence)s::bigint[], %(start_ms)s::bigint[],
        %(end_ms)s::bigint[], %(newest_ms)s::bigint[], %(received_at)b::timestamptz[], %(agent)b::text[]
    ) AS given (node_id, digest, words, boot_start_ms, sequence, first_ms, windows_ms, newest_ms, received_at, agent)
    JOIN inventory_node AS node ON node.id = given.node_id
    WHERE node.facts_digest = given.digest
      AND node.facts_order < jsonb_build_array(given.boot_start_ms, given.sequence)
      AND given.first_ms - COALESCE(node.windows_ms, node.last_ms) < %(gap)s::bigint
      AND (
          given.words = ''
          -- who repeats what it said of jobs says it without a hole, and is believed
          OR node.words_digest = given.words
              AND (
                  node.repeated_from_ms IS NULL
                  -- the batch that said it speaks of its last window at least
                  OR given.first_ms >= node.repeated_from_ms - node.window_s * 1000
                      AND given.first_ms <= COALESCE(node.repeated_until_ms, node.repeated_from_ms)
                      AND given.windows_ms >= COALESCE(node.repeated_until_ms, node.repeated_from_ms)
              )
              AND NOT EXISTS (SELECT FROM inventory_recallednode AS recalled WHERE recalled.node_id = node.id)
      )
    ORDER BY node.id
    FOR NO KEY UPDATE OF node
)
UPDATE inventory_node AS node
SET last_ms = GREATEST(node.last_ms, locked.newest_ms),
    windows_ms = GREATEST(node.windows_ms, locked.windows_ms),
    repeated_until_ms = CASE
        WHEN locked.words <> '' AND node.repeated_from_ms IS NOT NULL
        THEN GREATEST(node.repeated_until_ms, node.repeated_from_ms, locked.windows_ms)
        ELSE node.repeated_until_ms
    END,
    last_received_at = GREATEST(node.last_received_at, locked.received_at),
    silent_ms = CASE
        -- it was live, and would not be by what is this late
        WHEN (
                node.silent_ms >= node.last_ms
                OR extract(epoch FROM node.last_received_at) * 1000 - node.last_ms < %(replayed)s::bigint
            )
            AND extract(epoch FROM GREATEST(node.last_received_at, locked.received_at)) * 1000
                - GREATEST(node.last_ms, locked.newest_ms) >= %(replayed)s::bigint
        THEN GREATEST(node.silent_ms, node.last_ms, locked.newest_ms)
        ELSE node.silent_ms
    END,
    facts_order = jsonb_build_array(locked.boot_start_ms, locked.sequence),
    agent = locked.agent::jsonb,
    clock_offset_ms = 0
FROM locked
WHERE node.id = locked.node_id
RETURNING node.id, old.last_ms AS was_ms, new.last_ms AS is_ms, (old.facts_order ->> 0)::bigint AS boot_start_ms, (old.facts_order ->> 1)::bigint AS sequence
