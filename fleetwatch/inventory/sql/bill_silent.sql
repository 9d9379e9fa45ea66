-- One row per silent node whose GPUs are capacity for longer now: until when they were, and are.
-- In:  silent_since_ms: who gave no sign of life since then is silent; until_ms: the bill runs to there; known_since_ms, longest_ms:
--      silence is billed for so long, then the GPUs are retired; replayed_ms: what came so late was no live node's.
-- Again: safe, the bill runs to until_ms. A node that is locked is just being written to, and not silent.
WITH silent AS (
    SELECT
        id,
        GREATEST(last_ms, silent_ms) AS was_ms,
        LEAST(%(until_ms)s::bigint, last_ms + %(longest_ms)s::bigint) AS is_ms
    FROM inventory_node AS node
    WHERE last_ms <= %(silent_since_ms)s::bigint
      AND (
          -- whose silence is on the bill stays on it, whatever came late meanwhile
          silent_ms > last_ms
          OR (
              last_ms > %(known_since_ms)s::bigint
              AND (
                  -- it was live before what it sent late (Node.is_live)
                  silent_ms = last_ms
                  OR extract(epoch FROM last_received_at) * 1000 - last_ms < %(replayed_ms)s::bigint
              )
          )
      )
      AND EXISTS (SELECT FROM inventory_gpu AS gpu WHERE gpu.node_id = node.id AND gpu.first_ms IS NOT NULL AND gpu.retired_ms IS NULL)
    ORDER BY id
    FOR NO KEY UPDATE OF node SKIP LOCKED
)
UPDATE inventory_node AS node
SET silent_ms = silent.is_ms
FROM silent
WHERE node.id = silent.id
  AND silent.is_ms > silent.was_ms
RETURNING node.id, silent.was_ms, silent.is_ms
