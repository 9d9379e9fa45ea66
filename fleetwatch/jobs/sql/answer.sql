-- One row per job source of a node, answer (ok or not) and reason: when it was given, as far as the node spoke: what its batches repeat
-- of it included.
CREATE VIEW jobs_answer AS
SELECT
    report.id,
    report.node_id,
    report.kind,
    report.ok,
    report.why,
    CASE
        WHEN report.repeated_from_ms = node.repeated_from_ms AND node.repeated_until_ms > node.repeated_from_ms
        THEN report.asserted + int8multirange(int8range(node.repeated_from_ms, node.repeated_until_ms))
        ELSE report.asserted
    END AS asserted
FROM jobs_sourcereport AS report
JOIN inventory_node AS node ON node.id = report.node_id
