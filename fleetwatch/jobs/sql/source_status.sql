-- One row per job source of the nodes and answer (ok or not), with the time in [start_ms, end_ms) that it covers.
-- In:  node_ids, start_ms, end_ms.
-- Where both answers cover a millisecond, ok wins: another batch did see the source.
SELECT
    report.node_id,
    report.kind,
    report.ok,
    CASE WHEN report.ok OR other.asserted IS NULL THEN report.asserted ELSE report.asserted - other.asserted END
        * int8multirange(int8range(%(start_ms)s, %(end_ms)s)) AS spans
FROM jobs_answer AS report
LEFT JOIN jobs_answer AS other
    ON other.node_id = report.node_id AND other.kind = report.kind AND other.ok AND NOT report.ok
WHERE report.node_id = ANY(%(node_ids)s::bigint[])
  AND report.asserted && int8range(%(start_ms)s, %(end_ms)s)
ORDER BY report.node_id, report.kind, report.ok
