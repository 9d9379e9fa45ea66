-- One row: a job that one of some rules matches, whenever they hold.
-- In:  rules (JSON array, as attribute_jobs.sql has them and by the same conditions).
-- Again: safe, it only reads.
SELECT job.id
FROM costs_asked AS job
WHERE EXISTS (
    SELECT
    FROM jsonb_to_recordset(%(rules)s::jsonb) AS rule (
        "user" text, account text, namespace text, partition text, label text, label_value text
    )
    WHERE (rule."user" IS NULL OR job."user" LIKE rule."user")
      AND (rule.account IS NULL OR job.account LIKE rule.account)
      AND (rule.namespace IS NULL OR job.namespace LIKE rule.namespace)
      AND (rule.partition IS NULL OR job.partition LIKE rule.partition)
      AND (rule.label IS NULL OR job.labels ->> rule.label LIKE rule.label_value)
)
ORDER BY job.id
