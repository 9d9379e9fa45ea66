-- The view ledger_run: the parts of runs, one by one, that ledger_hourruns has as columns.
-- Whoever asks of a time bounds cut_ms too: no part begins before its cut, and no cut is longer than an hour.
-- Conditions are those of ledger/policy.py; hour_in_trouble: this or another part of the row is in trouble. Of 9 states and 8 figures each part has its own.
CREATE OR REPLACE VIEW ledger_run AS
SELECT
    hour.id * 8192 + part.number AS id,
    hour.node_id,
    hour.gpu_id,
    hour.job_id,
    hour.cut_ms,
    hour.in_trouble AS hour_in_trouble,
    (ARRAY['quiet', 'spinning', 'active', 'free', 'orphaned', 'unavailable', 'unobserved']::text[])[part.condition + 1] AS condition,
    hour.cut_ms + part.begins AS start_ms,
    hour.cut_ms + part.ends AS end_ms,
    part.continues,
    hour.state_ms[part.number * 9 - 8 : part.number * 9] AS state_ms,
    hour.figures[part.number * 8 - 7 : part.number * 8] AS figures
FROM ledger_hourruns AS hour
CROSS JOIN LATERAL unnest(hour.conditions, hour.begins, hour.ends, hour.continues)
    WITH ORDINALITY AS part (condition, begins, ends, continues, number)
