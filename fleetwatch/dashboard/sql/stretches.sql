-- One row: the parts of a GPU's runs within an hour that overlap the period, in order of time: their beginnings and ends, packed;
--      and the GPU time of each by state, as array_send packs it, with the share of its useful time of which utilisation alone tells,
--      and the share of its stalled time that a service waits. Runs do not know the two: of an hour, GPU and holder they are those
--      of the entries.
-- In:  gpu_ids; start_ms, end_ms; job_id or NULL = whoever held it.
-- Again: safe, it only reads.
WITH apart AS (
    SELECT
        gpu_id,
        job_id,
        (extract(epoch FROM date_trunc('hour', start, 'UTC')) * 1000)::bigint AS hour_ms,
        sum(gpu_ms) FILTER (WHERE state = 'useful' AND efficiency_source = 'none')::float8 / sum(gpu_ms) FILTER (WHERE state = 'useful') AS unverified,
        sum(gpu_ms) FILTER (WHERE state = 'stalled' AND tier = 'potential')::float8 / sum(gpu_ms) FILTER (WHERE state = 'stalled') AS waiting
    FROM ledger_entry
    WHERE gpu_id = ANY(%(gpu_ids)s::bigint[])
      AND start > to_timestamp((%(start_ms)s::bigint - 7200000) / 1000.0)
      AND start < to_timestamp(%(end_ms)s::bigint / 1000.0)
      AND state IN ('useful', 'stalled')
      AND (%(job_id)s::bigint IS NULL OR job_id = %(job_id)s::bigint)
    GROUP BY 1, 2, 3
    HAVING bool_or((state = 'useful' AND efficiency_source = 'none') OR (state = 'stalled' AND tier = 'potential'))
)
SELECT
    run.gpu_id,
    string_agg(int8send(run.start_ms) || int8send(run.end_ms), ''::bytea ORDER BY run.start_ms) AS spans,
    string_agg(
        array_send(run.state_ms) || float8send(COALESCE(apart.unverified, 0)) || float8send(COALESCE(apart.waiting, 0)),
        ''::bytea
        ORDER BY run.start_ms
    ) AS states
FROM ledger_run AS run
LEFT JOIN apart
    ON  apart.gpu_id = run.gpu_id
    AND apart.job_id = run.job_id
    AND apart.hour_ms = run.start_ms - mod(run.start_ms, 3600000)
WHERE run.gpu_id = ANY(%(gpu_ids)s::bigint[])
  -- no part is longer than an hour: the index on (gpu, start) need not be read from the first day on
  AND run.start_ms > %(start_ms)s::bigint - 3600000
  AND run.start_ms < %(end_ms)s::bigint
  AND run.end_ms > %(start_ms)s::bigint
  AND (%(job_id)s::bigint IS NULL OR run.job_id = %(job_id)s::bigint)
GROUP BY run.gpu_id
ORDER BY run.gpu_id
