-- One row: a UTC day of which causes of nodes were summed, of how many nodes, and a number that is another one once any of them is summed anew.
-- In:  days.
-- Again: safe, it only reads.
SELECT day, count(*), sum(hashint8extended(id, times_summed))
FROM diagnosis_diagnosedday
WHERE is_summed
  AND day = ANY(%(days)s::date[])
GROUP BY day
