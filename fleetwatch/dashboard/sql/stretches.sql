-- One row: the parts of a GPU's runs within an hour that overlap the period, packed: beginning, end, holder (0 = nobody), and the
--      GPU time by state as array_send packs it. In no order, and GPU by GPU: to sort or to group them takes as long as to read them.
-- In:  gpu_ids; start_ms, end_ms; job_id or NULL = whoever held it.
-- Again: safe, it only reads.
SELECT
    asked.gpu_id,
    packed.runs
FROM unnest(%(gpu_ids)s::bigint[]) AS asked (gpu_id)
CROSS JOIN LATERAL (
    SELECT string_agg(int8send(start_ms) || int8send(end_ms) || int8send(COALESCE(job_id, 0)) || array_send(state_ms), ''::bytea) AS runs
    FROM ledger_run
    WHERE gpu_id = asked.gpu_id
      -- no part is longer than an hour: the index on (gpu, start) need not be read from the first day on
      AND start_ms > %(start_ms)s::bigint - 3600000
      AND start_ms < %(end_ms)s::bigint
      AND end_ms > %(start_ms)s::bigint
      AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
) AS packed
WHERE packed.runs IS NOT NULL
