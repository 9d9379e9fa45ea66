-- One row per given batch that was received for the first time; the caller undoes everything unless that is all of them.
-- In:  node_id, boot_id, boot_start_ms, sequence, received_at, start_ms, end_ms, payload (one batch per node, by position; corrected by nothing);
--      mark_nodes, mark_hours (ms; the hours that each batch has to be sealed in); touched_nodes, touched_since (ms; its hour is to be posted again, from when on it changed).
-- Again: a sequence that is known counts as not received. Rows as telemetry.services writes them one by one.
WITH given AS (
    SELECT *
    FROM unnest(
        %(node_id)s::bigint[], %(boot_id)b::text[], %(boot_start_ms)s::bigint[], %(sequence)s::bigint[], %(received_at)b::timestamptz[],
        %(start_ms)s::bigint[], %(end_ms)s::bigint[], %(payload)b::bytea[]
    ) AS batch (node_id, boot_id, boot_start_ms, sequence, received_at, start_ms, end_ms, payload)
), recorded AS (
    INSERT INTO telemetry_receivedsequence AS kept (node_id, boot_id, boot_start_ms, clock_offset_ms, received)
    SELECT
        node_id, boot_id, boot_start_ms, 0, int8multirange(int8range(sequence, sequence + 1))
    FROM given
    ON CONFLICT (node_id, boot_id) DO UPDATE
    SET received = kept.received + EXCLUDED.received,
        clock_offset_ms = 0
    WHERE NOT kept.received @> EXCLUDED.received
    RETURNING node_id
), stored AS (
    INSERT INTO telemetry_batch (received_at, node_id, boot_id, boot_start_ms, sequence, start_ms, end_ms, offset_ms, quarantined, payload)
    SELECT
        received_at, node_id, boot_id, boot_start_ms, sequence, start_ms, end_ms, 0, false, payload
    FROM given
    RETURNING id, received_at, node_id
), marked AS (
    INSERT INTO telemetry_sealmark (node_id, hour, batch_id, batch_received_at)
    SELECT
        stored.node_id, to_timestamp(mark.hour_ms / 1000), stored.id, stored.received_at
    FROM unnest(%(mark_nodes)s::bigint[], %(mark_hours)s::bigint[]) AS mark (node_id, hour_ms)
    JOIN stored ON stored.node_id = mark.node_id
), touched AS (
    INSERT INTO telemetry_touchedhour (node_id, hour, from_ms)
    SELECT
        node_id, to_timestamp(since_ms / 3600000 * 3600), since_ms
    FROM unnest(%(touched_nodes)s::bigint[], %(touched_since)s::bigint[]) AS mark (node_id, since_ms)
)
SELECT node_id FROM recorded
