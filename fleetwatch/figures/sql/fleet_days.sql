-- One row: a day of the fleet that was summed, while its nodes' entries are as it was summed from: its start, their version, the newest GPU
--      there was, the digest of which GPUs it puts together (whether they still are alike, who reads asks), and its spans, compressed.
-- In:  day_starts, day_ends (the zone's days, arrays of one length); form (job: GPUs that are alike together, of each holder; total: of all
--      holders; node, gpu: of all holders, each node or GPU by itself; hour: each entry; NULL = no spans).
-- Again: safe, it only reads.
SELECT
    kept.start,
    kept.version,
    kept.last_gpu_id,
    kept.alike,
    CASE %(form)s::text
        WHEN 'job' THEN kept.job_spans
        WHEN 'total' THEN kept.total_spans
        WHEN 'node' THEN kept.node_spans
        WHEN 'gpu' THEN kept.gpu_spans
        WHEN 'hour' THEN kept.hour_spans
    END
FROM unnest(%(day_starts)s::timestamptz[], %(day_ends)s::timestamptz[]) AS day (start, "end")
JOIN costs_fleetday AS kept ON kept.start = day.start AND kept.until = day."end"
WHERE kept.version = (
    SELECT COALESCE(sum(node_day.version), 0)
    FROM ledger_nodeday AS node_day
    WHERE node_day.day BETWEEN (day.start AT TIME ZONE 'UTC')::date
                           AND ((day."end" - interval '1 microsecond') AT TIME ZONE 'UTC')::date
)
