"""Django made no table for Batch (0002 did); from here on it treats it like any other: flush empties it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("telemetry", "0003_packed_bytes_stored_as_they_are")]

    operations = [migrations.AlterModelOptions(name="batch", options={})]
