-- The function diagnosis_began_ms(): the moment (ms) at which time of a ledger's condition began on a node's GPUs, of those that a
-- capacity cause has in the hour cut first_start; NULL where no run of it is kept, or none has a GPU of them.
CREATE FUNCTION diagnosis_began_ms(wanted_node bigint, wanted_cause text, wanted_condition text, first_start timestamptz)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT min(run.start_ms)
        FROM diagnosis_capacityentry AS entry
        JOIN ledger_run AS run ON run.node_id = entry.node_id AND run.gpu_id = entry.gpu_id
        WHERE entry.node_id = wanted_node
          AND entry.cause = wanted_cause
          AND entry.cluster = ''
          AND entry.start = first_start
          AND run.cut_ms = (extract(epoch FROM first_start) * 1000)::bigint
          AND run.condition = wanted_condition
    );
END
$$
