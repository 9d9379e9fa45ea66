-- One row per given part of a chunk's payload that is as it was: the part's number from 1 on, its bytes.
-- In:  ids, versions, firsts (from 0), sizes (by position).
-- Again: reads only. A chunk that was written or deleted since gives no row.
SELECT
    wanted.number,
    substring(chunk.payload FROM wanted.first::int + 1 FOR wanted.size::int) AS bytes
FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[], %(firsts)s::bigint[], %(sizes)s::bigint[])
    WITH ORDINALITY AS wanted (id, version, first, size, number)
JOIN telemetry_chunk AS chunk
    ON  chunk.id = wanted.id
    AND chunk.xmin::text::bigint = wanted.version
