-- One row: what runs do not know, packed: GPU, holder, beginning of the hour, the share of its useful time of which utilisation alone tells,
--      and the share of its stalled time that a service waits; nothing of hours without either. NULL = there are none.
-- In:  gpu_ids; start_ms, end_ms; job_id or NULL = whoever held it.
-- Again: safe, it only reads.
WITH apart AS (
    SELECT
        gpu_id,
        job_id,
        floor(date_part('epoch', start) / 3600)::bigint * 3600000 AS start_ms,
        sum(gpu_ms) FILTER (WHERE state = 'useful' AND efficiency_source = 'none')::float8 / sum(gpu_ms) FILTER (WHERE state = 'useful') AS unverified,
        sum(gpu_ms) FILTER (WHERE state = 'stalled' AND tier = 'potential')::float8 / sum(gpu_ms) FILTER (WHERE state = 'stalled') AS waiting
    FROM ledger_entry
    WHERE gpu_id = ANY(%(gpu_ids)s::bigint[])
      AND job_id IS NOT NULL
      AND start > to_timestamp((%(start_ms)s::bigint - 7200000) / 1000.0)
      AND start < to_timestamp(%(end_ms)s::bigint / 1000.0)
      AND state IN ('useful', 'stalled')
      AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
    GROUP BY 1, 2, 3
    HAVING bool_or((state = 'useful' AND efficiency_source = 'none') OR (state = 'stalled' AND tier = 'potential'))
)
SELECT
    string_agg(
        int8send(gpu_id) || int8send(job_id) || int8send(start_ms)
        || float8send(COALESCE(unverified, 0)) || float8send(COALESCE(waiting, 0)),
        ''::bytea
    ) AS parts
FROM apart
