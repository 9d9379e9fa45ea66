-- The function alerts_runs_after(): the first parts of a GPU's runs within [from_ms, until_ms) that are in none of these conditions, so many
-- (NULL = all), in order of time. A function, for on a hub of several database nodes, which has no word for the first of each, each GPU's are
-- a statement: its node says where they lie.
CREATE FUNCTION alerts_runs_after(
    wanted_node bigint, wanted_gpu bigint, from_ms bigint, until_ms bigint, without text[], so_many bigint
)
RETURNS TABLE (condition text, start_ms bigint, end_ms bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT part.condition, part.start_ms, part.end_ms
    FROM ledger_run AS part
    WHERE part.node_id = wanted_node
      AND part.gpu_id = wanted_gpu
      AND part.cut_ms > from_ms - 3600000
      AND part.cut_ms < until_ms
      AND part.start_ms >= from_ms
      AND part.start_ms < until_ms
      AND part.condition <> ALL(without)
    -- cut by cut, by the index hour_runs_by_gpu
    ORDER BY part.cut_ms, part.start_ms
    LIMIT so_many;
END
$$
