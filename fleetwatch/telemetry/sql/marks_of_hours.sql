-- One row per mark of the given (node, hour): its id, and the batch that it names (NULL: not to be seen, its partition is half detached).
-- In:  nodes, hours (by position). Call it with the nodes' sealing locks held: nobody else deletes their marks then.
-- Again: reads only. By the batches' ids, so that of two windows with one key the one received first stays.
SELECT
    mark.id,
    mark.node_id,
    mark.hour,
    batch.id,
    batch.payload,
    batch.offset_ms,
    batch.boot_start_ms,
    batch.sequence,
    batch.node_id
FROM unnest(%(nodes)s::bigint[], %(hours)s::timestamptz[]) AS wanted (node_id, hour)
JOIN telemetry_sealmark AS mark USING (node_id, hour)
LEFT JOIN telemetry_batch AS batch
    ON batch.received_at = mark.batch_received_at
    AND batch.id = mark.batch_id
    AND NOT batch.quarantined
ORDER BY mark.batch_id
