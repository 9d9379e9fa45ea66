-- The id of the new row of one batch, which is marked to be sealed in the given hours.
-- In:  received_at, node_id, boot_id, boot_start_ms, sequence, start_ms, end_ms, offset_ms, quarantined, payload; hours (timestamptz[]).
-- Again: another row; the caller's transaction knows a batch by its sequence.
WITH stored AS (
    INSERT INTO telemetry_batch
        (received_at, node_id, boot_id, boot_start_ms, sequence, start_ms, end_ms, offset_ms, quarantined, payload)
    VALUES
        (%(received_at)s, %(node_id)s, %(boot_id)s, %(boot_start_ms)s, %(sequence)s, %(start_ms)s, %(end_ms)s,
         %(offset_ms)s, %(quarantined)s, %(payload)s)
    RETURNING id, received_at, node_id
), marked AS (
    INSERT INTO telemetry_sealmark (node_id, hour, batch_id, batch_received_at)
    SELECT node_id, unnest(%(hours)s::timestamptz[]), id, received_at
    FROM stored
)
SELECT id FROM stored
