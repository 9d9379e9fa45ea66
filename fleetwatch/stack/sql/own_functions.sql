-- One row: a function of ours that statements on distributed tables may call (what it says depends on nothing but what it is given), in the
-- order in which they were made: those that one of them calls come before it.
-- Again: reads only.
SELECT proc.oid::regprocedure::text
FROM pg_proc AS proc
WHERE proc.pronamespace = 'public'::regnamespace
  AND proc.provolatile = 'i'
  AND NOT EXISTS (
      SELECT FROM pg_depend AS part
      WHERE part.classid = 'pg_proc'::regclass AND part.objid = proc.oid AND part.deptype = 'e'
  )
ORDER BY proc.oid
