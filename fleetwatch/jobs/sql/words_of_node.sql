-- One row per record of a node that holds the job until the end of the batch that said it: its id, key and job (NULL: it may not speak), and
-- whether something else is believed of the job than it says. The jobs are locked until the transaction ends: nobody believes anything
-- else meanwhile.
-- In:  node_id, keys (text[]), from_ms: the end of the batch.
SELECT
    word.id,
    word.key,
    word.job_id,
    (job.state, job.end_ms, job.restarts, job.name) IS DISTINCT FROM (
        word.facts ->> 'state', (word.facts ->> 'end_ms')::bigint, (word.facts ->> 'restarts')::bigint,
        coalesce(nullif(word.facts ->> 'name', ''), job.name)
    ) AS differs
FROM jobs_jobrecord AS word
JOIN jobs_job AS job ON job.id = word.job_id
WHERE word.node_id = %(node_id)s::bigint
  AND word.key = ANY(%(keys)s::text[])
  AND word.held_until_ms = %(from_ms)s::bigint
ORDER BY job.said_key, job.id
FOR SHARE OF job
