-- One row: what waits between the door and the ledger, and what is stored; columns as the fields of telemetry.selectors.Depth.
-- In:  closed (hours that start then or earlier could have been sealed by a run that is over).
-- Again: reads only. A partition that is being detached is not measured: that would wait for whoever detaches it.
WITH batches AS (
    SELECT
        max(received_at) AS newest,
        count(*) AS total,
        count(*) FILTER (WHERE quarantined) AS quarantined
    FROM telemetry_batch
), partitions AS (
    SELECT
        count(*) AS total,
        coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint AS bytes
    FROM pg_inherits
    WHERE inhparent = 'telemetry_batch'::regclass
      AND NOT inhdetachpending
), marks AS (
    SELECT count(*) AS total
    FROM telemetry_sealmark
), overdue AS (
    SELECT
        count(*) AS hours,
        coalesce(sum(batches), 0)::bigint AS batches
    FROM (
        SELECT count(*) AS batches
        FROM telemetry_sealmark
        WHERE hour <= %(closed)s
        GROUP BY hour, node_id
    ) AS hours
), touched AS (
    SELECT count(*) AS total
    FROM (SELECT DISTINCT node_id, hour FROM telemetry_touchedhour) AS hours
), chunks AS (
    SELECT
        count(*) AS total,
        coalesce(sum(window_count), 0)::bigint AS windows
    FROM telemetry_chunk
)
SELECT
    batches.newest,
    batches.total,
    partitions.bytes,
    partitions.total,
    batches.quarantined,
    marks.total,
    overdue.hours,
    overdue.batches,
    touched.total,
    chunks.total,
    telemetry_stored_bytes('telemetry_chunk'),
    chunks.windows
FROM batches, partitions, marks, overdue, touched, chunks
