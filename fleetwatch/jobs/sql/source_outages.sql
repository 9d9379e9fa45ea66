-- One row per time in which a job source of the node did not answer, newest first: kind, when it began, why at first, and when the source
-- answered next (NULL: not yet), in ms.
-- In:  node_id, count (at most so many).
-- Where both answers cover a millisecond, ok wins: another batch did see the source.
SELECT
    said.kind,
    min(lower(span)) AS start_ms,
    (array_agg(said.why ORDER BY lower(span), said.why))[1],
    again.answered_ms
FROM jobs_answer AS said
LEFT JOIN jobs_answer AS answered
    ON answered.node_id = said.node_id AND answered.kind = said.kind AND answered.ok
CROSS JOIN LATERAL unnest(said.asserted - coalesce(answered.asserted, '{}')) AS span
CROSS JOIN LATERAL (
    SELECT min(lower(answer)) AS answered_ms
    FROM unnest(answered.asserted) AS answer
    WHERE lower(answer) >= upper(span)
) AS again
WHERE said.node_id = %(node_id)s
  AND NOT said.ok
GROUP BY said.kind, again.answered_ms
ORDER BY start_ms DESC, said.kind
LIMIT %(count)s
