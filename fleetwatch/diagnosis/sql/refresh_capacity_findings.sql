-- One row: a cause that is the node's to mend, or a cluster's queue. First and last are the hours in which it was; first is, where jobs are
--      slowed, their first cell, and where the ledger has the run that it began with, its moment.
-- In:  node_ids, clusters (of which something changed), of_nodes (causes that are a node's capacity), conditions (what the ledger calls
--      the time of each; '' = of none), outbreaks (of these, what
--      happens to a GPU, each time anew), slowed (the cause of nodes that is told of jobs), queue (the cause of clusters), now_ms (no finding ends later).
-- Again: safe, a finding is one row per subject and cause; what people decided stays, but what was called fixed is open again once
--        there is an hour of it that began after that: it is the same machine, and the next fault of it is not the one that was mended.
--        What was dismissed stays so while it goes on; an outbreak that began since is another one: of another GPU, or of a GPU that
--        was well for a day.
WITH span AS (
    SELECT node_id, '' AS cluster, cause, condition, first_start, last_start, 1 AS first_cells
    FROM unnest(%(node_ids)s::bigint[]) AS node (node_id)
    CROSS JOIN unnest(%(of_nodes)s::text[], %(conditions)s::text[]) AS of_node (cause, condition)
    CROSS JOIN LATERAL diagnosis_capacity_hours(node.node_id, '', of_node.cause) AS hours
    UNION ALL
    SELECT node_id, '', %(slowed)s, '', first_start, last_start, first_cells
    FROM unnest(%(node_ids)s::bigint[]) AS node (node_id)
    CROSS JOIN LATERAL diagnosis_slowed_hours(node.node_id) AS hours
    UNION ALL
    SELECT NULL, cluster, %(queue)s, '', first_start, last_start, 1
    FROM unnest(%(clusters)s::text[]) AS waiting (cluster)
    CROSS JOIN LATERAL diagnosis_capacity_hours(NULL, waiting.cluster, %(queue)s) AS hours
),
told AS (
    SELECT
        node_id,
        cluster,
        cause,
        -- a bit for each of the hour's twelve cells
        CASE
            WHEN cause = %(slowed)s THEN
                extract(epoch FROM date_trunc('hour', first_start, 'UTC'))::bigint * 1000
                + (position('1' IN reverse(first_cells::int::bit(12)::text)) - 1) * 300000
            ELSE GREATEST((extract(epoch FROM first_start) * 1000)::bigint, diagnosis_began_ms(node_id, cause, condition, first_start))
        END AS first_ms,
        LEAST((extract(epoch FROM date_trunc('hour', last_start, 'UTC')) * 1000)::bigint + 3600000, %(now_ms)s::bigint) AS last_ms,
        last_start
    FROM span
    WHERE last_start IS NOT NULL
),
gone AS (
    DELETE FROM diagnosis_finding AS finding
    WHERE (finding.node_id = ANY(%(node_ids)s::bigint[]) OR (finding.cluster <> '' AND finding.cluster = ANY(%(clusters)s::text[])))
      AND NOT EXISTS (
          SELECT FROM told
          WHERE told.cause = finding.cause AND told.cluster = finding.cluster AND told.node_id IS NOT DISTINCT FROM finding.node_id
      )
      AND NOT EXISTS (SELECT FROM diagnosis_said AS said WHERE said.finding_id = finding.id)
),
broke_out AS (
    SELECT DISTINCT finding.id
    FROM diagnosis_finding AS finding
    JOIN diagnosis_capacityentry AS entry
        ON  entry.node_id = finding.node_id
        AND entry.cause = finding.cause
        AND entry.cluster = ''
        AND entry.start >= finding.decided_at
    WHERE finding.status = 'dismissed'
      AND finding.node_id = ANY(%(node_ids)s::bigint[])
      AND finding.cause = ANY(%(outbreaks)s::text[])
      AND NOT EXISTS (
          SELECT FROM diagnosis_capacityentry AS before
          WHERE before.node_id = entry.node_id
            AND before.cause = entry.cause
            AND before.cluster = ''
            AND before.start >= entry.start - interval '1 day'
            AND before.start < entry.start
            AND before.gpu_id = entry.gpu_id
      )
),
known AS (
    UPDATE diagnosis_finding AS finding
    SET first_ms = told.first_ms,
        last_ms = told.last_ms,
        status = CASE
            WHEN finding.status = 'fixed' AND told.last_start >= finding.decided_at THEN 'open'
            WHEN finding.id IN (SELECT id FROM broke_out) THEN 'open'
            ELSE finding.status
        END
    FROM told
    WHERE finding.cause = told.cause AND finding.cluster = told.cluster AND finding.node_id IS NOT DISTINCT FROM told.node_id
      AND finding.job_id IS NULL
    RETURNING finding.node_id, finding.cluster, finding.cause
)
INSERT INTO diagnosis_finding (node_id, cluster, cause, first_ms, last_ms, status)
SELECT told.node_id, told.cluster, told.cause, told.first_ms, told.last_ms, 'open'
FROM told
WHERE NOT EXISTS (
    SELECT FROM known
    WHERE known.cause = told.cause AND known.cluster = told.cluster AND known.node_id IS NOT DISTINCT FROM told.node_id
)
ON CONFLICT DO NOTHING
