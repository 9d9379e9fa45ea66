-- Notes that the processes last seen on some GPUs are still there.
-- In:  pks, seen, states, memory, by position.
-- Again: safe.
UPDATE jobs_gpuprocess AS process
SET seen_ms = given.seen_ms,
    state = given.state,
    memory_bytes = given.memory_bytes
FROM unnest(%(pks)s::bigint[], %(seen)s::bigint[], %(states)b::text[], %(memory)s::bigint[]) AS given (id, seen_ms, state, memory_bytes)
WHERE process.id = given.id
RETURNING process.id
