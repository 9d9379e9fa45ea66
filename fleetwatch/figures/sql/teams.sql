-- One row per team: its id, slug and name.
-- Again: safe, it only reads.
SELECT id, slug, name
FROM accounts_team
