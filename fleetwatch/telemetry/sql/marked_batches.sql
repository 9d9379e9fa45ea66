-- One row per batch that still has windows to seal in one of these hours of one of these nodes, and that ends after a moment.
-- In:  nodes, hours, ends_after_ms; without_payload (bigint[]: ids of batches of which it is not wanted).
-- Again: reads only. By id, so that of two windows with one key the one received first stays, here as after sealing.
SELECT
    batch.id,
    CASE WHEN batch.id = ANY(%(without_payload)s) THEN ''::bytea ELSE batch.payload END AS payload,
    batch.offset_ms,
    batch.boot_start_ms,
    batch.sequence,
    batch.node_id
FROM (
    SELECT DISTINCT batch_received_at AS received_at, batch_id AS id
    FROM telemetry_sealmark
    WHERE hour = ANY(%(hours)s) AND node_id = ANY(%(nodes)s)
) AS wanted
JOIN telemetry_batch AS batch USING (received_at, id)
WHERE NOT batch.quarantined
  AND (batch.end_ms IS NULL OR batch.end_ms > %(ends_after_ms)s)
ORDER BY batch.id
