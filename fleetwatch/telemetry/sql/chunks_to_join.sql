-- Which chunks are no whole 6 hours yet: few, and found without reading all chunks; none is longer,
-- readers rely on it.
-- read by: join, which looks for complete spans that are still in several chunks
CREATE INDEX chunk_to_join ON telemetry_chunk (start, node_id)
WHERE "end" - start < interval '6 hours';
ALTER TABLE telemetry_chunk ADD CONSTRAINT a_chunk_is_at_most_six_hours
CHECK ("end" - start <= interval '6 hours');
