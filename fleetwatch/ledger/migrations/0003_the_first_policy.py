from datetime import UTC, datetime
from typing import Any

from django.db import migrations

# Written out, not imported: version 1 stays what it was when policy.py's defaults move on.
VERSION_1 = {
    "idle_batch_s": 900, "idle_interactive_s": 1800, "idle_service_s": 3600,
    "grace_batch_s": 900, "grace_interactive_s": 600, "grace_service_s": 1800,
    "observed_min_ratio": 0.5, "quiet_max": 0.02, "blip_max": 0.02, "blip_row_s": 900, "bridge_windows": 3, "active_full": 0.9,
    "contradiction_power_ratio": 0.3, "contradiction_codec_ratio": 0.02, "contradiction_link_bytes_s": 52428800,
    "phantom_memory_bytes": 314572800,
    "spin_util_min": 0.95, "spin_power_max": 0.2, "spin_tensor_max": 0.005, "spin_dram_max": 0.02, "spin_resolvable_s": 10,
    "ceiling_sm": 0.85, "ceiling_tensor": 0.35, "ceiling_dram": 0.75, "ceiling_fp64": 0.6, "ceiling_power": 0.65,
    "power_floor": 0.05, "power_min_working": 0.3, "rest_extra_w": 40, "rest_extra_ratio": 0.2, "energy_max_ratio": 1.3,
    "revival_s": 300,
}  # fmt: skip


def insert(apps: Any, schema_editor: Any) -> None:
    apps.get_model("ledger", "Policy").objects.get_or_create(
        version=1, defaults={"thresholds": VERSION_1, "created_at": datetime.now(UTC)}
    )


def remove(apps: Any, schema_editor: Any) -> None:
    apps.get_model("ledger", "Policy").objects.filter(version=1).delete()


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_runs_are_kept_in_parts")]

    operations = [migrations.RunPython(insert, remove)]
