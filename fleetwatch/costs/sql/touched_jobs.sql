-- One row: a job that one of some rules matches, whenever they hold. Follows matching.sql, whose parameters it takes.
-- Again: safe, it only reads.
SELECT DISTINCT job_id FROM matching ORDER BY job_id
