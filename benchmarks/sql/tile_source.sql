-- Temporary tables of this connection: the posted day's jobs, entries and runs, in the order in which they were posted.
--      Every tiled day is read from these: they are there without a search, and do not grow with what is tiled.
-- In:  source_start, source_end (timestamptz, the posted day), source_start_ms, source_end_ms.
-- Again: safe, they are made anew.
DROP TABLE IF EXISTS tile_job, tile_entry, tile_run;

CREATE TEMPORARY TABLE tile_entry AS
SELECT gpu_id, start, job_id, state, kind, reason, signal, efficiency_source, tier, policy_id, gpu_ms, energy_j
FROM ledger_entry
WHERE start >= %(source_start)s AND start < %(source_end)s;

CREATE TEMPORARY TABLE tile_run AS
SELECT
    gpu_id,
    job_id,
    cut_ms,
    in_trouble,
    conditions,
    begins,
    ends,
    -- nothing is before the day
    CASE WHEN cut_ms = %(source_start_ms)s AND begins[1] = 0 THEN false || continues[2:] ELSE continues END AS continues,
    state_ms,
    figures
FROM ledger_hourruns
WHERE cut_ms >= %(source_start_ms)s AND cut_ms < %(source_end_ms)s;

CREATE TEMPORARY TABLE tile_job AS
SELECT job.*, row_number() OVER (ORDER BY job.id) - 1 AS place, count(*) OVER () AS jobs
FROM jobs_job AS job
WHERE job.id IN (SELECT job_id FROM tile_entry);

ANALYZE tile_entry, tile_run, tile_job
