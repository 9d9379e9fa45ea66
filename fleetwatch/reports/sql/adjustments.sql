-- One row: signed GPU time of one holder, state, corrected month and cause under one rate, of what was booked in [start, end).
-- In:  start, end (timestamptz); zone (IANA name).
-- Again: safe, it only reads. A corrected hour is priced at the rate that held in it, and is its team's.
SELECT
    adjustment.job_id IS NOT NULL AS is_held,
    team.slug AS team,
    owned.is_named,
    CASE WHEN adjustment.job_id IS NULL THEN adjustment.state ELSE '' END AS state,
    to_char(adjustment.start AT TIME ZONE %(zone)s, 'YYYY-MM') AS corrects,
    adjustment.cause,
    rate.usd_per_gpu_hour,
    sum(adjustment.gpu_ms)::bigint AS gpu_ms
FROM ledger_adjustment AS adjustment
LEFT JOIN costs_owned AS owned
    ON  owned.job_id = adjustment.job_id
    AND owned.valid_from <= adjustment.start
    AND owned.valid_to > adjustment.start
LEFT JOIN accounts_team AS team ON team.id = owned.team_id
LEFT JOIN costs_gpurate AS rate
    ON  rate.gpu_id = adjustment.gpu_id
    AND rate.valid_from <= adjustment.start
    AND (rate.valid_to IS NULL OR rate.valid_to > adjustment.start)
WHERE adjustment.booked_at >= %(start)s
  AND adjustment.booked_at < %(end)s
GROUP BY 1, 2, 3, 4, 5, 6, 7
