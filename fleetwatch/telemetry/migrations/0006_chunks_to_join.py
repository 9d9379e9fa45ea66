"""Which chunks are no whole 6 hours yet: few, and found without reading all chunks. No chunk is longer than that: readers rely on it."""

from django.db import migrations

# read by: join, which looks for complete spans that are still in several chunks
CREATE = """
CREATE INDEX chunk_to_join ON telemetry_chunk (start, node_id) WHERE "end" - start < interval '6 hours';
ALTER TABLE telemetry_chunk ADD CONSTRAINT a_chunk_is_at_most_six_hours CHECK ("end" - start <= interval '6 hours');
"""
DROP = """
ALTER TABLE telemetry_chunk DROP CONSTRAINT a_chunk_is_at_most_six_hours;
DROP INDEX chunk_to_join;
"""


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0005_hours_that_came_too_late")]

    operations = [migrations.RunSQL(CREATE, DROP)]
