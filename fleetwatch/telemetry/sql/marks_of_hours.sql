-- One row per mark of the given (node, hour): its id, and the batch that it names.
-- In:  nodes, hours (by position). Call it with the nodes' sealing locks held: nobody else deletes their marks then.
-- Again: reads only.
SELECT
    mark.id,
    mark.node_id,
    mark.hour,
    mark.batch_received_at,
    mark.batch_id
FROM unnest(%(nodes)s::bigint[], %(hours)s::timestamptz[]) AS wanted (node_id, hour)
JOIN telemetry_sealmark AS mark USING (node_id, hour)
