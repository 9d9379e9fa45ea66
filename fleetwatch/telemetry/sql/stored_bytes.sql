-- The function telemetry_stored_bytes(): how much disk a table takes with its indexes, wherever its rows lie: of one that is distributed by
-- Citus (manage.py distribute) the coordinator's own table is empty.
CREATE FUNCTION telemetry_stored_bytes(wanted regclass) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        IF EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = wanted) THEN
            RETURN citus_total_relation_size(wanted);
        END IF;
    END IF;
    RETURN pg_total_relation_size(wanted);
END
$$
