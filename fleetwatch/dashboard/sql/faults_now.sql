-- One row per GPU that may be broken: its UUID; of one with outages when its node was heard last, and the outages as the last posting took them;
-- of one whose memory errors are an incident that fires neither (NULL).
-- In:  memory_errors (the condition), firing (states of incidents).
-- Again: reads only.
SELECT
    gpu.uuid,
    node.last_ms,
    posted.outages
FROM ledger_posted AS posted
JOIN inventory_gpu AS gpu ON gpu.id = posted.gpu_id
JOIN inventory_node AS node ON node.id = gpu.node_id
WHERE posted.outages <> '[]'
  AND gpu.retired_ms IS NULL
  AND gpu.parent_id IS NULL
UNION ALL
SELECT
    incident.subject,
    NULL,
    NULL
FROM alerts_incident AS incident
JOIN alerts_rule AS rule ON rule.id = incident.rule_id
WHERE rule.condition = %(memory_errors)s
  AND incident.state = ANY(%(firing)s)
