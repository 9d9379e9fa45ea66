-- One row per kind of data that is kept for so long: its name, its bytes on disk with indexes, and the moment that the oldest of it is of
-- (NULL = there is none).
-- Again: reads only. A partition that is being detached is not measured: that would wait for whoever detaches it.
SELECT
    'batches',
    coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint,
    (SELECT min(received_at) FROM telemetry_batch)
FROM pg_inherits
WHERE inhparent = 'telemetry_batch'::regclass
  AND NOT inhdetachpending
UNION ALL
SELECT 'columns', telemetry_stored_bytes('telemetry_chunk'), (SELECT min(start) FROM telemetry_chunk)
UNION ALL
SELECT 'curves', telemetry_stored_bytes('telemetry_daymatrix'), (SELECT min(day)::timestamptz FROM telemetry_daymatrix)
UNION ALL
SELECT
    'ledger',
    telemetry_stored_bytes('ledger_entry') + telemetry_stored_bytes('ledger_hourruns'),
    (SELECT min(start) FROM ledger_entry);
