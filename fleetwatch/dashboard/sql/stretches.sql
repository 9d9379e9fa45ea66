-- One row: the parts of GPUs' runs of all cuts that touch the period, packed as ledger/packed_runs.py reads them; NULL = there are none. In no
--      order: to sort or to group them takes as long as to read them.
-- In:  gpu_ids; start_ms, end_ms; job_id or NULL = whoever held it.
-- Again: safe, it only reads.
SELECT
    string_agg(
        int8send(gpu_id) || int8send(COALESCE(job_id, 0)) || int8send(cut_ms) || int4send(cardinality(ends)),
        ''::bytea
    ) AS hours,
    string_agg(substr(array_send(begins), 21), ''::bytea) AS begins,
    string_agg(substr(array_send(ends), 21), ''::bytea) AS ends,
    string_agg(substr(array_send(state_ms), 21), ''::bytea) AS states
FROM ledger_hourruns
WHERE gpu_id = ANY(%(gpu_ids)s::bigint[])
  -- no cut is longer than an hour
  AND cut_ms > %(start_ms)s::bigint - 3600000
  AND cut_ms < %(end_ms)s::bigint
  AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
HAVING count(*) > 0
