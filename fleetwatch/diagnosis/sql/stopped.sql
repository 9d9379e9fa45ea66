-- One row: a job whose last cell has one and the same cause on every GPU that it held in the last day: the cause, how many GPUs and nodes that
--      were, and its labels.
-- In:  job_ids; sure (how sure each of these causes is at least).
-- Nodes of one job are not judged at the same moment: cells of the last hour are its last ones. A GPU of which only an older one is known may
-- work by now, for its node is silent: then nothing is said of the job.
-- Again: safe, it only reads.
WITH newest AS (
    SELECT job_id, max(start) AS start
    FROM diagnosis_causeentry
    WHERE job_id = ANY(%(job_ids)s::bigint[])
    GROUP BY job_id
),
last_cell AS (
    SELECT DISTINCT ON (entry.job_id, entry.gpu_id)
        entry.job_id,
        entry.gpu_id,
        entry.node_id,
        entry.cause,
        entry.confidence,
        entry.start > newest.start - interval '1 hour' AS is_recent
    FROM newest
    -- the fence: each job by the index on (job, start), never the whole table
    CROSS JOIN LATERAL (
        SELECT *, generate_series(1, 1) AS fence
        FROM diagnosis_causeentry
        WHERE job_id = newest.job_id
          AND start > newest.start - interval '1 day'
    ) AS entry
    -- a bit for each of the hour's twelve cells, the highest is the last
    ORDER BY entry.job_id, entry.gpu_id, date_trunc('hour', entry.start, 'UTC') DESC, entry.cells DESC
)
SELECT job.id, min(last_cell.cause), count(*), count(DISTINCT last_cell.node_id), job.labels::text
FROM last_cell
JOIN jobs_job AS job ON job.id = last_cell.job_id
GROUP BY job.id
HAVING bool_and(last_cell.is_recent AND last_cell.confidence >= %(sure)s) AND min(last_cell.cause) = max(last_cell.cause)
