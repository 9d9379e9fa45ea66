-- One row per given batch that is stored: its node's last_ms before and after, and the order of its newest batch before. It is received for the
-- first time, newer than all before it, and its node's newest facts and words have the given digests; of any other nothing is written.
-- In:  node_id, digest, words (digest of what it says of jobs; '' = something new), boot_id, boot_start_ms, sequence, start_ms and end_ms of its windows,
--      newest_ms, received_at, agent, payload, quiet_boot_ms and quiet_sequence (of the batch that has to be the newest before; NULL = any): one batch
--      per node, by position; mark_nodes, mark_hours (ms; the hours that each batch has to be sealed in);
--      gap (ms): without windows for so long a stay has ended, and the next one begins the long way; replayed (ms): Node.is_live;
--      final_ms: hours before it are not posted again; lock_timeout, statement_timeout: they hold until the transaction ends, the first already for the
--      locks taken here.
-- Again: a batch that is not newer than all before it finds no row. Nodes are locked in order of id until the transaction ends. Rows as inventory and
--        telemetry write them one by one (inventory.services, telemetry.services).
WITH limits AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(lock_timeout)s::text, true), set_config('statement_timeout', %(statement_timeout)s::text, true)
), locked AS (
    SELECT given.*
    FROM limits, unnest(
        %(node_id)s::bigint[], %(digest)b::bytea[], %(words)b::bytea[], %(boot_id)b::text[], %(boot_start_ms)s::bigint[], %(sequence)s::bigint[],
        %(start_ms)s::bigint[], %(end_ms)s::bigint[], %(newest_ms)s::bigint[], %(received_at)b::timestamptz[], %(agent)b::text[], %(payload)b::bytea[],
        %(quiet_boot_ms)s::bigint[], %(quiet_sequence)s::bigint[]
    ) AS given (
        node_id, digest, words, boot_id, boot_start_ms, sequence, first_ms, windows_ms, newest_ms, received_at, agent, payload, quiet_boot_ms,
        quiet_sequence
    )
    JOIN inventory_node AS node ON node.id = given.node_id
    WHERE node.facts_digest = given.digest
      AND node.facts_order < jsonb_build_array(given.boot_start_ms, given.sequence)
      AND (given.quiet_boot_ms IS NULL OR node.facts_order = jsonb_build_array(given.quiet_boot_ms, given.quiet_sequence))
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
                    OR extract(epoch FROM node.last_received_at) * 1000 - node.last_ms < %(replayed)s::bigint
                )
                AND extract(epoch FROM GREATEST(node.last_received_at, new.received_at)) * 1000
                    - GREATEST(node.last_ms, new.newest_ms) >= %(replayed)s::bigint
            THEN GREATEST(node.silent_ms, node.last_ms, new.newest_ms)
            ELSE node.silent_ms
        END,
        facts_order = jsonb_build_array(new.boot_start_ms, new.sequence),
        agent = new.agent::jsonb,
        clock_offset_ms = 0
    FROM new
    WHERE node.id = new.node_id
    RETURNING node.id, old.last_ms AS was_ms, node.last_ms AS is_ms, old.facts_order, new.first_ms, new.windows_ms
), stored AS (
    INSERT INTO telemetry_batch (received_at, node_id, boot_id, boot_start_ms, sequence, start_ms, end_ms, offset_ms, quarantined, payload)
    SELECT
        received_at, node_id, boot_id, boot_start_ms, sequence, first_ms, windows_ms, 0, false, payload
    FROM new
    RETURNING id, received_at, node_id
), marked AS (
    INSERT INTO telemetry_sealmark (node_id, hour, batch_id, batch_received_at)
    SELECT
        stored.node_id, to_timestamp(mark.hour_ms / 1000), stored.id, stored.received_at
    FROM unnest(%(mark_nodes)s::bigint[], %(mark_hours)s::bigint[]) AS mark (node_id, hour_ms)
    JOIN stored ON stored.node_id = mark.node_id
), touched AS (
    -- its windows, and the time by which the node's life became longer: all its GPUs were capacity in it
    INSERT INTO telemetry_touchedhour (node_id, hour, from_ms)
    SELECT
        span.node_id, to_timestamp(hour_ms / 1000), GREATEST(hour_ms, span.from_ms)
    FROM (
        SELECT
            id AS node_id,
            LEAST(first_ms, CASE WHEN is_ms > was_ms THEN GREATEST(was_ms, %(final_ms)s::bigint) END) AS from_ms,
            GREATEST(windows_ms, CASE WHEN is_ms > was_ms THEN is_ms END) AS until_ms
        FROM lived
    ) AS span, generate_series(span.from_ms / 3600000 * 3600000, span.until_ms - 1, 3600000) AS hour_ms
)
SELECT
    id, was_ms, is_ms, (facts_order ->> 0)::bigint AS boot_start_ms, (facts_order ->> 1)::bigint AS sequence
FROM lived
