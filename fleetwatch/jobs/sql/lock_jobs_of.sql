-- One row per key of which jobs are locked until the transaction ends, in order of key: those given, and those of what the nodes repeat.
-- In:  keys (text[]), node_ids.
-- Again: safe, it only locks.
SELECT job.said_key
FROM jobs_job AS job
WHERE job.said_key = ANY(%(keys)s::text[])
   OR job.said_key IN (
       SELECT word.key
       FROM inventory_node AS node
       JOIN jobs_jobrecord AS word ON word.node_id = node.id AND word.repeated_from_ms = node.repeated_from_ms
       WHERE node.id = ANY(%(node_ids)s::bigint[])
   )
ORDER BY job.said_key, job.id
FOR NO KEY UPDATE OF job
