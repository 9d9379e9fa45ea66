-- One row per job source of the nodes, as its newest report says: node, kind, when it was reported last, since when it does not answer
-- (NULL: it answers) and why it does not, in ms.
-- In:  node_ids (NULL: of all nodes).
-- A source that is reported no longer, though its node reports others, is not among them. Where both answers cover a millisecond, ok wins.
WITH report AS (
    SELECT
        said.node_id,
        said.kind,
        said.ok,
        said.why,
        upper(answered.asserted) AS answered_ms,
        CASE WHEN said.ok OR answered.asserted IS NULL THEN said.asserted ELSE said.asserted - answered.asserted END AS asserted
    FROM jobs_answer AS said
    LEFT JOIN jobs_answer AS answered
        ON answered.node_id = said.node_id AND answered.kind = said.kind AND answered.ok
    WHERE %(node_ids)s::bigint[] IS NULL
       OR said.node_id = ANY(%(node_ids)s::bigint[])
),
-- of a source that did not answer what came after its last answer
newest AS (
    SELECT
        node_id,
        kind,
        max(upper(asserted)) AS reported_ms,
        min(lower(silent)) FILTER (WHERE NOT ok AND NOT isempty(silent)) AS silent_ms,
        (array_agg(why ORDER BY upper(silent) DESC, why) FILTER (WHERE NOT ok AND NOT isempty(silent)))[1] AS why
    FROM report
    CROSS JOIN LATERAL (
        SELECT CASE WHEN answered_ms IS NULL THEN asserted ELSE asserted * int8multirange(int8range(answered_ms, NULL)) END AS silent
    ) AS after_answers
    GROUP BY node_id, kind
)
SELECT
    node_id, kind, reported_ms, silent_ms, coalesce(why, '')
FROM (
    SELECT *, max(reported_ms) OVER (PARTITION BY node_id) AS node_ms
    FROM newest
) AS newest
WHERE node_ms - reported_ms < %(forgotten_ms)s
ORDER BY node_id, kind
