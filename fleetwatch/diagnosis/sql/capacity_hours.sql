-- The function diagnosis_capacity_hours(): the first and the last hour cut in which a cause took capacity of a node (wanted_cluster '') or of
-- a cluster (wanted_node NULL); NULL = none.
-- Each is read off an end of an index, as of extent_of_waste.sql: how long a node is known makes no difference.
CREATE FUNCTION diagnosis_capacity_hours(wanted_node bigint, wanted_cluster text, wanted_cause text)
RETURNS TABLE (first_start timestamptz, last_start timestamptz) LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF wanted_node IS NULL THEN
        RETURN QUERY
        SELECT min(entry.start), max(entry.start)
        FROM diagnosis_capacityentry AS entry
        WHERE entry.cluster = wanted_cluster AND entry.cause = wanted_cause AND entry.cluster <> '' AND entry.high_ms > 0;
    ELSE
        RETURN QUERY
        SELECT min(entry.start), max(entry.start)
        FROM diagnosis_capacityentry AS entry
        WHERE entry.node_id = wanted_node AND entry.cause = wanted_cause AND entry.cluster = '';
    END IF;
END
$$
