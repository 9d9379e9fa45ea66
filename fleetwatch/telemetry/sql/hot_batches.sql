-- The table telemetry_batch. One row: a batch as received. Append-only, partitioned by the time of
-- receipt, so that a sealed part is dropped and never deleted from. No default partition: with one,
-- DETACH PARTITION CONCURRENTLY is refused. An insert finds its partition made ahead
-- (partitions.ensure) or makes it (services.append_batch).
CREATE SEQUENCE telemetry_batch_id_seq AS bigint;
CREATE TABLE telemetry_batch (
    id             bigint      NOT NULL DEFAULT nextval('telemetry_batch_id_seq'),
    received_at    timestamptz NOT NULL,
    node_id        bigint      NOT NULL,
    boot_id        varchar(128) NOT NULL,
    boot_start_ms  bigint      NOT NULL,
    sequence       bigint      NOT NULL,
    start_ms       bigint,
    end_ms         bigint,
    offset_ms      bigint      NOT NULL DEFAULT 0,
    quarantined    boolean     NOT NULL DEFAULT false,
    payload        bytea       NOT NULL,
    CONSTRAINT telemetry_batch_key PRIMARY KEY (received_at, id)
) PARTITION BY RANGE (received_at);
ALTER SEQUENCE telemetry_batch_id_seq OWNED BY telemetry_batch.id;
-- the payload is gzip already: compressing it again costs time and saves nothing
ALTER TABLE telemetry_batch ALTER COLUMN payload SET STORAGE EXTERNAL;
-- read by: the node page and support questions, which batches of a node cover a time
CREATE INDEX telemetry_batch_by_node ON telemetry_batch (node_id, start_ms);
