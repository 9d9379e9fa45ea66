"""The policy's thresholds as people write them: what each is called, "15 min" for 900 s, and back.

Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal

from fleetwatch.ledger.policy import Policy
from fleetwatch.lib import durations
from fleetwatch.lib.csv_files import amounts

UNITS = {threshold.name: threshold.metadata["unit"] for threshold in fields(Policy)}

LABELS = {
    "idle_batch_s": "Batch job is idle after",
    "idle_interactive_s": "Interactive job is idle after",
    "idle_service_s": "Service is idle after",
    "grace_batch_s": "Start of a batch job, up to",
    "grace_interactive_s": "Start of an interactive job, up to",
    "grace_service_s": "Start of a service, up to",
    "observed_min_ratio": "Window counts if observed for at least",
    "quiet_max": "Quiet window: activity up to",
    "blip_max": "Blip in a quiet run: activity up to",
    "blip_row_s": "Blips in a row, up to",
    "bridge_windows": "Missing windows bridged, up to",
    "active_full": "Counts as fully active from",
    "contradiction_power_ratio": "Power above idle that contradicts quiet",
    "contradiction_codec_ratio": "Video engine activity that contradicts quiet",
    "contradiction_link_bytes_s": "PCIe or NVLink traffic that contradicts quiet",
    "work_limit_ratio": "Power that proves work, of the limit",
    "phantom_memory_bytes": "Memory that holds a GPU, from",
    "empty_memory_bytes": "Memory that counts as empty, up to",
    "spin_util_min": "Busy-waiting: utilisation from",
    "spin_power_max": "Busy-waiting: power above idle up to",
    "spin_limit_ratio": "Busy-waiting: power of the limit below",
    "spin_tensor_max": "Busy-waiting: tensor activity up to",
    "spin_dram_max": "Busy-waiting: memory traffic up to",
    "spin_resolvable_s": "Busy-waiting: longest window that can tell",
    "ceiling_sm": "Practical ceiling, SM activity",
    "ceiling_tensor": "Practical ceiling, tensor cores",
    "ceiling_dram": "Practical ceiling, memory bandwidth",
    "ceiling_fp64": "Practical ceiling, FP64",
    "ceiling_power": "Practical ceiling, power",
    "power_floor": "Least efficiency of active work",
    "power_min_working": "Power counts if active for at least",
    "rest_extra_w": "Power of a resident context above idle",
    "rest_extra_ratio": "The same on small boards, of their range",
    "energy_max_ratio": "Energy is plausible up to, of the limit",
    "revival_s": "Work that ends an outage",
}

# from when on a job is idle, by its kind
IDLE_AFTER = ("idle_batch_s", "idle_interactive_s", "idle_service_s")

_TIME = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
_SIZE = {"gib": 1024**3, "mib": 1024**2, "kib": 1024, "b": 1}
# what a number may be followed by, and what one of it is in the unit that is stored
SUFFIXES: Mapping[str, Mapping[str, float]] = {
    "s": _TIME | {"m": 60},
    "bytes": _SIZE,
    "bytes/s": {f"{name}/s": size for name, size in _SIZE.items()},
    "ratio": {"%": 0.01},
    "W": {"w": 1},
    "windows": {"windows": 1, "window": 1},
}
_PART = re.compile(r"([0-9][0-9.,]*)\s*([a-z%/]+)", re.IGNORECASE)


def written(value: float, unit: str) -> str:
    """The value with its unit: "15 min", "2 %", "300 MiB", "40 W"."""
    if unit == "s":
        return durations.exact(value * 1000)
    if unit == "ratio":
        return f"{value * 100:.10g} %"
    if unit in ("bytes", "bytes/s"):
        return f"{value / 1024**2:,.10g} MiB{unit.removeprefix('bytes')}"
    return f"{value:,.10g} {unit}"


def read(text: str, unit: str) -> float | None:
    """The value that is written, in the unit that is stored: "1 h 30 min" and "5400" are 5400 s,
    "2 %" and "0.02" are a ratio; None for what is neither, and for a bare "2", which is no ratio.
    """
    bare = amounts.typed(text)
    if bare is not None:
        return None if unit == "ratio" and bare > 1 else float(bare)
    suffixes = SUFFIXES.get(unit, {})
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        return None
    values = [(amounts.typed(number), suffixes.get(suffix.lower())) for number, suffix in parts]
    if any(number is None or size is None for number, size in values):
        return None
    # decimal: 70 % is 0.7, as it is stored
    return float(sum((number or 0) * Decimal(str(size or 0)) for number, size in values))


def is_bare(text: str) -> bool:
    """Whether it is a number without a unit, and not 0."""
    return bool(amounts.typed(text))


def of_minutes(minutes: float) -> str:
    """So many minutes as people write them: "30 min", "4 h"; "0" for none."""
    return written(minutes * 60, "s") if minutes else "0"


def read_minutes(text: str) -> float | None:
    """Minutes, as "90", "90 min" or "1 h 30 min"; None for what is none of these."""
    bare = amounts.typed(text)
    if bare is not None:
        return float(bare)
    seconds = read(text, "s")
    return None if seconds is None else seconds / 60
