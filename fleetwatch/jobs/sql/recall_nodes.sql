-- One row per node that is recalled: it repeats something of a job of these keys that is not believed, or that is another job's word now.
-- In:  keys (text[]); records (bigint[]), those that were given to another job. Their jobs are locked.
-- Again: safe; who is recalled already gets no other mark, which many nodes of one job would make of each other.
INSERT INTO inventory_recallednode (node_id)
SELECT DISTINCT node.id
FROM jobs_jobrecord AS word
JOIN inventory_node AS node ON node.id = word.node_id AND node.repeated_from_ms = word.repeated_from_ms
LEFT JOIN jobs_job AS job ON job.id = word.job_id
WHERE NOT EXISTS (SELECT FROM inventory_recallednode AS recalled WHERE recalled.node_id = node.id)
  AND (
      word.id = ANY(%(records)s::bigint[])
      OR word.key = ANY(%(keys)s::text[])
      AND (job.state, job.end_ms, job.restarts, job.name) IS DISTINCT FROM (
          word.facts ->> 'state', (word.facts ->> 'end_ms')::bigint, (word.facts ->> 'restarts')::bigint,
          coalesce(nullif(word.facts ->> 'name', ''), job.name)
      )
  )
RETURNING node_id
