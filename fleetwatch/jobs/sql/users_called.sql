-- One row per user of jobs whose name contains a text, whatever its case; by name.
-- In:  text, size (rows at most).
-- It walks from name to name over the index jobs_by_user: DISTINCT would read every job.
-- Reads only.
WITH RECURSIVE names AS (
    (SELECT "user" FROM jobs_job ORDER BY "user" LIMIT 1)
    UNION ALL
    SELECT following."user"
    FROM names
    CROSS JOIN LATERAL (
        SELECT jobs_job."user"
        FROM jobs_job
        WHERE jobs_job."user" > names."user"
        ORDER BY jobs_job."user"
        LIMIT 1
    ) AS following
)
SELECT "user"
FROM names
WHERE "user" <> '' AND position(lower(%(text)s) IN lower("user")) > 0
ORDER BY "user"
LIMIT %(size)s
