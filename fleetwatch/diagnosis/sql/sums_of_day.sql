-- One row: what causes of one node's UTC day sum to, as caused.sql has it of sums: the node, names of the causes, packed spans.
-- In:  day.
-- Again: safe, it only reads.
SELECT node_id, 0, 0, causes, spans
FROM diagnosis_diagnosedday
WHERE is_summed
  AND day = %(day)s::date
