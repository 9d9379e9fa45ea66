-- One row: the name of a foreign key of a table.
-- In:  the table (by position).
-- Again: reads only.
SELECT conname
FROM pg_constraint
WHERE conrelid = %s::regclass
  AND contype = 'f'
ORDER BY conname
