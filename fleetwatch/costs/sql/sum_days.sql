-- One row: a node's day [start, until), its GPU time packed as packed_spans.py reads it, of each GPU, holder and kind, and of GPUs of
--      one price together, and of all holders together; beside it costs_dayhours, one row per node's day and price, with the same time by cut.
-- In:  node_ids, starts, untils (arrays of one length; cuts of the ledger, each until within the day of its start).
-- Again: safe, a day's rows are replaced whole. Versions and entries are read by one statement, so that they fit.
WITH wanted AS MATERIALIZED (
    SELECT
        day.node_id,
        day.start,
        day.until,
        alike.digest,
        costs_versions(first_day.versions, second_day.versions, third_day.versions, day.start, day.until) AS versions
    FROM unnest(%(node_ids)s::bigint[], %(starts)s::timestamptz[], %(untils)s::timestamptz[]) AS day (node_id, start, until)
    JOIN (SELECT DISTINCT node_id, digest FROM costs_alike) AS alike ON alike.node_id = day.node_id
    LEFT JOIN ledger_nodeday AS first_day
        ON first_day.node_id = day.node_id AND first_day.day = (day.start AT TIME ZONE 'UTC')::date
    LEFT JOIN ledger_nodeday AS second_day
        ON second_day.node_id = day.node_id AND second_day.day = (day.start AT TIME ZONE 'UTC')::date + 1
    LEFT JOIN ledger_nodeday AS third_day
        ON third_day.node_id = day.node_id AND third_day.day = (day.start AT TIME ZONE 'UTC')::date + 2
),
forgotten_hours AS (
    DELETE FROM costs_dayhours AS day_hours
    USING wanted
    WHERE day_hours.node_id = wanted.node_id
      AND day_hours.start = wanted.start
),
part AS MATERIALIZED (
    SELECT
        wanted.node_id,
        wanted.start,
        entry.start AS cut,
        entry.gpu_id,
        entry.job_id,
        costs_kind(entry.state, entry.tier, entry.efficiency_source) AS kind,
        entry.job_id IS NOT NULL OR entry.state IN ('useful', 'underused', 'stalled', 'idle', 'starting') AS is_held,
        entry.state = 'unobserved' AS is_unobserved,
        sum(entry.gpu_ms) AS gpu_ms,
        sum(entry.energy_j) AS energy_j,
        COALESCE(sum(entry.gpu_ms) FILTER (WHERE entry.energy_j IS NOT NULL), 0) AS energy_ms
    FROM wanted
    JOIN ledger_entry AS entry
        ON  entry.node_id = wanted.node_id
        AND entry.start >= wanted.start
        AND entry.start < wanted.until
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
),
hour AS (
    SELECT
        part.node_id,
        part.start,
        alike.stands_for_id AS gpu_id,
        part.cut,
        sum(part.gpu_ms)::bigint AS capacity_ms,
        COALESCE(sum(part.gpu_ms) FILTER (WHERE part.is_held), 0)::bigint AS held_ms,
        COALESCE(sum(part.gpu_ms) FILTER (WHERE part.is_unobserved), 0)::bigint AS unobserved_ms
    FROM part
    JOIN costs_alike AS alike ON alike.gpu_id = part.gpu_id
    GROUP BY 1, 2, 3, 4
),
hours AS (
    INSERT INTO costs_dayhours (node_id, start, gpu_id, cuts, capacity_ms, held_ms, unobserved_ms)
    SELECT
        node_id,
        start,
        gpu_id,
        array_agg(cut ORDER BY cut),
        array_agg(capacity_ms ORDER BY cut),
        array_agg(held_ms ORDER BY cut),
        array_agg(unobserved_ms ORDER BY cut)
    FROM hour
    GROUP BY node_id, start, gpu_id
),
span AS (
    SELECT node_id, start, gpu_id, job_id, kind, sum(gpu_ms)::bigint AS gpu_ms, sum(energy_j) AS energy_j, sum(energy_ms)::bigint AS energy_ms
    FROM part
    GROUP BY node_id, start, gpu_id, job_id, kind
),
packed AS (
    SELECT node_id, start, string_agg(costs_span(gpu_id, job_id, kind, gpu_ms, energy_j, energy_ms), ''::bytea) AS spans
    FROM span
    GROUP BY node_id, start
),
alike_span AS (
    SELECT
        span.node_id, span.start, alike.stands_for_id AS gpu_id, span.job_id, span.kind,
        sum(span.gpu_ms)::bigint AS gpu_ms, sum(span.energy_j) AS energy_j, sum(span.energy_ms)::bigint AS energy_ms
    FROM span
    JOIN costs_alike AS alike ON alike.gpu_id = span.gpu_id
    GROUP BY 1, 2, 3, 4, 5
),
packed_alike AS (
    SELECT node_id, start, string_agg(costs_span(gpu_id, job_id, kind, gpu_ms, energy_j, energy_ms), ''::bytea) AS spans
    FROM alike_span
    GROUP BY node_id, start
),
total_span AS (
    SELECT
        node_id, start, gpu_id, kind,
        sum(gpu_ms)::bigint AS gpu_ms, sum(energy_j) AS energy_j, sum(energy_ms)::bigint AS energy_ms
    FROM alike_span
    GROUP BY 1, 2, 3, 4
),
packed_total AS (
    SELECT node_id, start, string_agg(costs_span(gpu_id, NULL, kind, gpu_ms, energy_j, energy_ms), ''::bytea) AS spans
    FROM total_span
    GROUP BY node_id, start
)
INSERT INTO costs_summedday (node_id, start, until, versions, alike, spans, alike_spans, total_spans)
SELECT
    wanted.node_id, wanted.start, wanted.until, wanted.versions, wanted.digest,
    COALESCE(packed.spans, ''), COALESCE(packed_alike.spans, ''), COALESCE(packed_total.spans, '')
FROM wanted
LEFT JOIN packed USING (node_id, start)
LEFT JOIN packed_alike USING (node_id, start)
LEFT JOIN packed_total USING (node_id, start)
ON CONFLICT (node_id, start) DO UPDATE
SET until = EXCLUDED.until, versions = EXCLUDED.versions, alike = EXCLUDED.alike,
    spans = EXCLUDED.spans, alike_spans = EXCLUDED.alike_spans, total_spans = EXCLUDED.total_spans
