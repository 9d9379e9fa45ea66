-- One row: a cause that is the node's to mend, or a cluster's queue. First and last are the hours in which it was.
-- In:  node_ids, clusters (of which something changed), throttled (causes of nodes that CauseEntries tell), outbreaks (causes that
--      happen to a GPU, each time anew), now_ms (no finding ends later).
-- Again: safe, a finding is one row per subject and cause; what people decided stays, but what was called fixed is open again once
--        there is an hour of it that began after that: it is the same machine, and the next fault of it is not the one that was mended.
--        What was dismissed stays so while it goes on; an outbreak that began since is another one: of another GPU, of a GPU that
--        was well for a day, or of one that had errors only and now can't work (or the other way round).
WITH hours AS (
    SELECT
        node_id,
        '' AS cluster,
        cause,
        start,
        cause = ANY(%(outbreaks)s::text[])
            AND start - interval '1 day'
                > COALESCE(lag(start) OVER (PARTITION BY gpu_id, cause, high_ms > 0 ORDER BY start), '-infinity') AS is_outbreak
    FROM diagnosis_capacityentry
    WHERE node_id = ANY(%(node_ids)s::bigint[]) AND cluster = ''
    UNION ALL
    SELECT node_id, '', cause, start, FALSE
    FROM diagnosis_causeentry
    WHERE node_id = ANY(%(node_ids)s::bigint[]) AND cause = ANY(%(throttled)s::text[]) AND high_ms > 0
    UNION ALL
    SELECT NULL, cluster, cause, start, FALSE
    FROM diagnosis_capacityentry
    WHERE cluster = ANY(%(clusters)s::text[]) AND cluster <> '' AND high_ms > 0
),
told AS (
    SELECT
        node_id,
        cluster,
        cause,
        (extract(epoch FROM min(start)) * 1000)::bigint AS first_ms,
        max(start) AS last_start,
        max(start) FILTER (WHERE is_outbreak) AS last_outbreak,
        LEAST((extract(epoch FROM date_trunc('hour', max(start), 'UTC')) * 1000)::bigint + 3600000, %(now_ms)s::bigint) AS last_ms
    FROM hours
    GROUP BY node_id, cluster, cause
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
known AS (
    UPDATE diagnosis_finding AS finding
    SET first_ms = told.first_ms,
        last_ms = told.last_ms,
        status = CASE
            WHEN finding.status = 'fixed' AND told.last_start >= finding.decided_at THEN 'open'
            WHEN finding.status = 'dismissed' AND told.last_outbreak >= finding.decided_at THEN 'open'
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
