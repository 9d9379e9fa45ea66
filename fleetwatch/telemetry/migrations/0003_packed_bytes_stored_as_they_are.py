"""Chunks are zstd already, and reading part of one must not decompress all of it in Postgres."""

from django.db import migrations

EXTERNAL = """
ALTER TABLE telemetry_chunk ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE telemetry_chunk ALTER COLUMN host SET STORAGE EXTERNAL;
"""
EXTENDED = """
ALTER TABLE telemetry_chunk ALTER COLUMN payload SET STORAGE EXTENDED;
ALTER TABLE telemetry_chunk ALTER COLUMN host SET STORAGE EXTENDED;
"""


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0002_hot_batches_partitioned")]

    operations = [migrations.RunSQL(EXTERNAL, EXTENDED)]
