-- Notes that the processes last seen on some GPUs are still there.
-- In:  id, seen_ms, state, memory_bytes, by position.
-- Again: safe.
UPDATE jobs_gpuprocess AS process
SET seen_ms = given.seen_ms,
    state = given.state,
    memory_bytes = given.memory_bytes
FROM unnest(%(id)s::bigint[], %(seen_ms)s::bigint[], %(state)b::text[], %(memory_bytes)s::bigint[]) AS given (id, seen_ms, state, memory_bytes)
WHERE process.id = given.id
RETURNING process.id
