-- One row: findings of jobs of one status and owner with time in the period, packed as cause_columns.py reads them: id, job, number of the cause, end of
--      its last cell (ms), what its priced step alone would have saved and of how much (ms; 0 = not measured).
-- In:  start_ms, end_ms; now (a snooze that is over is open); causes (names: the first is number 0; findings of others are left out);
--      job_ids or NULL = of any job.
-- Again: safe, it only reads.
SELECT
    CASE WHEN status = 'snoozed' AND snoozed_until <= %(now)s::timestamptz THEN 'open' ELSE status END AS status_now,
    assignee_id,
    string_agg(
        int8send(id) || int8send(job_id) || int2send((array_position(%(causes)s::text[], cause::text) - 1)::smallint) || int8send(last_ms)
        || int8send(COALESCE(step_saved_ms, 0)) || int8send(COALESCE(step_of_ms, 0)),
        ''::bytea
    ) AS findings
FROM diagnosis_finding
WHERE job_id IS NOT NULL
  AND (%(job_ids)s::bigint[] IS NULL OR job_id = ANY(%(job_ids)s::bigint[]))
  AND last_ms > %(start_ms)s::bigint
  AND first_ms < %(end_ms)s::bigint
  AND cause = ANY(%(causes)s::text[])
GROUP BY status_now, assignee_id
