-- One row per given batch that is stored: its node's last_ms before and after, and the order of its newest batch before. It is received for the
-- first time, newer than all before it, and its node's newest facts and words have the given digests; of any other nothing is written.
-- In:  node_id, digest, words (digest of what it says of jobs; '' = something new), boot_id, boot_start_ms, sequence, start_ms, last_ms and end_ms of its windows
--      (the first one's start, the last one's start and end; without a hole of an hour),
--      newest_ms, received_at, agent, payload_start and payload_size (of payloads, the first byte is 1), facts_order, quiet_since (facts_order
--      of the batch that has to be the newest before; NULL = any): one batch per node, by position; payloads, one after the other;
--      gap (ms): without windows for so long a stay has ended, and the next one begins the long way; replayed (ms): Node.is_live;
--      final_ms: hours before it are not posted again; lock, statement (as '200ms'; how long each waits): they hold until the transaction ends, the first already for the
--      locks taken here.
-- Again: a batch that is not newer than all before it finds no row. Nodes are locked in order of id until the transaction ends. Rows as inventory and
--        telemetry write them one by one (inventory.services, telemetry.services).
WITH limits AS (
    SELECT set_config('lock_timeout', %(lock)s, true), set_config('statement_timeout', %(statement)s, true)
), locked AS (
    SELECT given.*
    FROM limits, unnest(
        %(node_id)s::bigint[], %(digest)s::bytea[], %(words)s::bytea[], %(boot_id)s::text[], %(boot_start_ms)s::bigint[], %(sequence)s::bigint[],
        %(start_ms)s::bigint[], %(last_ms)s::bigint[], %(end_ms)s::bigint[], %(newest_ms)s::bigint[], %(received_at)s::timestamptz[], %(agent)s::text[],
        %(payload_start)s::int[], %(payload_size)s::int[], %(facts_order)s::jsonb[], %(quiet_since)s::jsonb[]
    ) AS given (
        node_id, digest, words, boot_id, boot_start_ms, sequence, first_ms, last_ms, windows_ms, newest_ms, received_at, agent, payload_start, payload_size,
        facts_order, quiet_since
    )
    JOIN inventory_node AS node ON node.id = given.node_id
    WHERE node.facts_digest = given.digest
      AND node.facts_order < given.facts_order
      AND (given.quiet_since IS NULL OR node.facts_order = given.quiet_since)
      AND given.first_ms - COALESCE(node.windows_ms, node.last_ms) < %(gap)s
      AND (
          given.words = ''
          -- who repeats what it said of jobs says it without a hole, and is believed
          OR node.words_digest = given.words
              AND (
                  node.repeated_from_ms IS NULL
                  -- the batch that said it speaks of its last window at least
                  OR given.first_ms >= node.repeated_from_ms - node.window_s * 1000
                      AND COALESCE(node.repeated_until_ms, node.repeated_from_ms) BETWEEN given.first_ms AND given.windows_ms
              )
              AND NOT EXISTS (SELECT FROM inventory_recallednode AS recalled WHERE recalled.node_id = node.id)
      )
    ORDER BY node.id
    FOR NO KEY UPDATE OF node
), recorded AS (
    INSERT INTO telemetry_receivedsequence AS kept (node_id, boot_id, boot_start_ms, clock_offset_ms, received)
    SELECT
        node_id, boot_id, boot_start_ms, 0, int8multirange(int8range(sequence, sequence + 1))
    FROM locked
    ON CONFLICT (node_id, boot_id) DO UPDATE
    SET received = kept.received + EXCLUDED.received,
        clock_offset_ms = 0
    WHERE NOT kept.received @> EXCLUDED.received
    RETURNING node_id
), new AS (
    SELECT locked.*
    FROM locked
    JOIN recorded USING (node_id)
), lived AS (
    UPDATE inventory_node AS node
    SET last_ms = GREATEST(node.last_ms, new.newest_ms),
        windows_ms = GREATEST(node.windows_ms, new.windows_ms),
        repeated_until_ms = CASE
            WHEN new.words <> '' AND node.repeated_from_ms IS NOT NULL
            THEN GREATEST(node.repeated_until_ms, node.repeated_from_ms, new.windows_ms)
            ELSE node.repeated_until_ms
        END,
        last_received_at = GREATEST(node.last_received_at, new.received_at),
        silent_ms = CASE
            -- it was live, and would not be by what is this late
            WHEN (
                    node.silent_ms >= node.last_ms
                    OR extract(epoch FROM node.last_received_at) * 1000 - node.last_ms < %(replayed)s
                )
                AND extract(epoch FROM GREATEST(node.last_received_at, new.received_at)) * 1000
                    - GREATEST(node.last_ms, new.newest_ms) >= %(replayed)s
            THEN GREATEST(node.silent_ms, node.last_ms, new.newest_ms)
            ELSE node.silent_ms
        END,
        facts_order = new.facts_order,
        agent = new.agent::jsonb,
        clock_offset_ms = 0
    FROM new
    WHERE node.id = new.node_id
    RETURNING
        node.id, old.last_ms AS was_ms, node.last_ms AS is_ms, old.facts_order,
        -- its windows, and the time by which the node's life became longer: all its GPUs were capacity in it
        LEAST(new.first_ms, CASE WHEN node.last_ms > old.last_ms THEN GREATEST(old.last_ms, %(final_ms)s) END) AS from_ms,
        CASE WHEN node.last_ms > old.last_ms THEN node.last_ms ELSE new.windows_ms END AS until_ms
), stored AS (
    INSERT INTO telemetry_batch (received_at, node_id, boot_id, boot_start_ms, sequence, start_ms, end_ms, offset_ms, quarantined, payload)
    SELECT
        received_at, node_id, boot_id, boot_start_ms, sequence, first_ms, windows_ms, 0, false,
        substring(%(payloads)b::bytea FROM payload_start FOR payload_size)
    FROM new
    RETURNING id, received_at, node_id
), marked AS (
    INSERT INTO telemetry_sealmark (node_id, hour, batch_id, batch_received_at)
    SELECT
        stored.node_id, to_timestamp(hour_ms / 1000), stored.id, stored.received_at
    FROM stored
    JOIN new USING (node_id), generate_series(new.first_ms / 3600000 * 3600000, new.last_ms, 3600000) AS hour_ms
), touched AS (
    INSERT INTO telemetry_touchedhour (node_id, hour, from_ms)
    SELECT
        id, to_timestamp(hour_ms / 1000), GREATEST(hour_ms, from_ms)
    FROM lived, generate_series(from_ms / 3600000 * 3600000, until_ms - 1, 3600000) AS hour_ms
)
SELECT
    id, was_ms, is_ms, (facts_order ->> 0)::bigint, (facts_order ->> 1)::bigint
FROM lived
