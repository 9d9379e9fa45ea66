-- The function diagnosis_slowed_hours(): the first and the last hour cut in which jobs were slowed on a node, and the cells of the first; NULL
-- where nothing could have been saved in any: what the lower clock cost counts of busy hours too.
-- Each is read off an end of the index throttled_by_node: how long a node is known makes no difference.
CREATE OR REPLACE FUNCTION diagnosis_slowed_hours(wanted_node bigint)
RETURNS TABLE (first_start timestamptz, last_start timestamptz, first_cells smallint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (
        SELECT FROM diagnosis_causeentry AS entry
        WHERE entry.node_id = wanted_node AND entry.cause = 'throttled' AND entry.high_ms > 0
    ) THEN
        SELECT min(entry.start), max(entry.start)
        INTO first_start, last_start
        FROM diagnosis_causeentry AS entry
        WHERE entry.node_id = wanted_node AND entry.cause = 'throttled';
        SELECT bit_or(entry.cells)
        INTO first_cells
        FROM diagnosis_causeentry AS entry
        WHERE entry.node_id = wanted_node AND entry.cause = 'throttled' AND entry.start = first_start;
    END IF;
    RETURN NEXT;
END
$$
