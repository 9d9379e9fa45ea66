-- One row: causes of a node in one cut of the ledger, packed as cause_columns.py reads them: of each GPU, job and cause; beside them the names of
--      the causes that the numbers in them stand for, from 1 on, with commas.
-- In:  cuts (where each begins: array); is_current (only hours whose ledger did not change since they were diagnosed); what is looked at,
--      NULL = all: node_ids, job_id, cause.
-- Again: safe, it only reads.
WITH part AS MATERIALIZED (
    SELECT edge.number, entry.*
    FROM unnest(%(cuts)s::timestamptz[]) WITH ORDINALITY AS edge (cut, number)
    CROSS JOIN inventory_node AS node
    -- OFFSET 0: each node by the index on (node, start)
    CROSS JOIN LATERAL (
        SELECT * FROM diagnosis_causeentry WHERE node_id = node.id AND start = edge.cut OFFSET 0
    ) AS entry
    WHERE (%(node_ids)s::bigint[] IS NULL OR node.id = ANY(%(node_ids)s::bigint[]))
      AND (%(job_id)s::bigint IS NULL OR entry.job_id = %(job_id)s::bigint)
      AND (%(cause)s::text IS NULL OR entry.cause = %(cause)s::text)
      AND (
          NOT %(is_current)s::boolean
          OR EXISTS (
              SELECT FROM diagnosis_diagnosedday AS diagnosed
              JOIN ledger_nodeday AS posted ON posted.node_id = diagnosed.node_id AND posted.day = diagnosed.day
              WHERE diagnosed.node_id = node.id
                AND diagnosed.day = (edge.cut AT TIME ZONE 'UTC')::date
                AND diagnosed.versions[extract(hour FROM edge.cut AT TIME ZONE 'UTC')::int + 1]
                  = posted.versions[extract(hour FROM edge.cut AT TIME ZONE 'UTC')::int + 1]
          )
      )
),
named AS MATERIALIZED (
    SELECT array_agg(DISTINCT cause) AS causes FROM part
)
SELECT
    (part.number - 1)::bigint,
    part.node_id,
    array_to_string(named.causes, ',') AS causes,
    string_agg(
        diagnosis_span(
            gpu_id, job_id, array_position(named.causes, cause), confidence, held_ms, idle_certain_ms, idle_probable_ms, stalled_probable_ms,
            stalled_potential_ms, underused_ms, low_ms, high_ms
        ),
        ''::bytea
    ) AS spans
FROM part
CROSS JOIN named
GROUP BY part.number, part.node_id, named.causes
