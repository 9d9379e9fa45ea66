-- One row: a node and a day whose sum is missing, old or shorter than it could be; newest days first.
-- In:  day_starts, day_untils (arrays of one length), limit.
-- Again: safe, it only reads.
SELECT node.id AS node_id, day.start, day.until
FROM inventory_node AS node
CROSS JOIN unnest(%(day_starts)s::timestamptz[], %(day_untils)s::timestamptz[]) AS day (start, until)
LEFT JOIN (SELECT DISTINCT node_id, digest FROM costs_alike) AS alike ON alike.node_id = node.id
LEFT JOIN costs_current_sum AS current_sum
    ON  current_sum.node_id = node.id
    AND current_sum.start = day.start
    AND current_sum.until = day.until
    AND current_sum.alike = alike.digest
    -- of a time before GPUs of one price, and holders, were summed together
    AND EXISTS (
        SELECT FROM costs_summedday AS kept
        WHERE kept.node_id = node.id AND kept.start = day.start AND kept.total_spans IS NOT NULL
    )
WHERE current_sum.node_id IS NULL
  -- of hours in which something was posted; a cut may begin within its hour
  AND EXISTS (
      SELECT
      FROM ledger_nodeday AS posted
      CROSS JOIN LATERAL unnest(posted.versions) WITH ORDINALITY AS hour (version, number)
      WHERE posted.node_id = node.id
        AND posted.day >= (day.start AT TIME ZONE 'UTC')::date
        AND posted.day <= (day.until AT TIME ZONE 'UTC')::date
        AND hour.version > 0
        AND posted.day::timestamp AT TIME ZONE 'UTC' + hour.number * interval '1 hour' > day.start
        AND posted.day::timestamp AT TIME ZONE 'UTC' + (hour.number - 1) * interval '1 hour' < day.until
  )
ORDER BY day.start DESC, node.id
LIMIT %(limit)s
