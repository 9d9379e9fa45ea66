-- One row per cluster and partition: how many jobs began in [start_ms, end_ms) of which it is known when they were submitted, and how
-- long they had waited together, in ms. The partitions with most jobs first.
-- In:  start_ms, end_ms, count (at most so many rows).
SELECT
    cluster, coalesce(labels ->> 'partition', ''), count(*), sum(start_ms - submit_ms)::bigint
FROM jobs_job
WHERE start_ms >= %(start_ms)s
  AND start_ms < %(end_ms)s
  AND submit_ms <= start_ms
GROUP BY 1, 2
ORDER BY count(*) DESC, 1, 2
LIMIT %(count)s
