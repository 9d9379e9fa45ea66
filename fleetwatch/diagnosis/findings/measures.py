"""What detectors compare, in words with units: the name of a feature and how its value is shown.

Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan

MIB, GIB = 1024**2, 1024**3

Shown = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Measure:
    """A feature for people: its name, and its value as text."""

    label: str
    shown: Shown


def share(value: float) -> str:
    """41 %, 0.4 %."""
    percent = value * 100
    return (
        f"{percent:.0f} %"
        if abs(percent) >= 10 or percent == round(percent)
        else f"{percent:.1f} %"
    )


def rate(value: float) -> str:
    """Bytes per second: 4.2 GiB/s, 35 MiB/s."""
    return f"{value / GIB:.1f} GiB/s" if value >= GIB else f"{value / MIB:.0f} MiB/s"


def seconds(value: float) -> str:
    """12 s, 4 min."""
    if value >= 600:
        return f"{value / 60:.0f} min"
    return f"{value:.0f} s" if value >= 10 or value == round(value) else f"{value:.1f} s"


def number(value: float) -> str:
    """3, 0.42."""
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"


_NAMES: dict[str, tuple[str, Shown]] = {
    "util": ("utilisation, mean", share),
    "util_max": ("utilisation, highest reading", share),
    "util_lowest": ("utilisation, lowest five minutes", share),
    "p5": ("utilisation, all but the lowest 5 % of readings", share),
    "lo": ("time below 10 % utilisation", share),
    "window_lo": ("time in quiet windows", share),
    "hi": ("time at 90 % utilisation and more", share),
    "spin": ("time busy at near-idle power", share),
    "pr": ("power between idle and limit, mean", share),
    "pr_max": ("power between idle and limit, highest", share),
    "sm": ("SM activity", share),
    "ten": ("tensor activity", share),
    "dram": ("memory bandwidth in use", share),
    "dram_leads": ("memory bandwidth by its ceiling, of SM activity by its own", number),
    "fp32": ("FP32 activity", share),
    "fp64": ("FP64 activity", share),
    "eng": ("busiest video, JPEG or flow engine", share),
    "rx": ("PCIe traffic to the GPU", rate),
    "tx_max": ("PCIe traffic from the GPU, highest", rate),
    "nvl": ("NVLink traffic", rate),
    "nic_rx": ("network traffic to the node", rate),
    "disk_write": ("disk writes of the node", rate),
    "mem": ("memory in use, mean", share),
    "mem_max": ("memory in use, peak", share),
    "memory_drops_per_min": ("memory given back, times per minute", number),
    "memory_at_end": ("memory in use when the job ended", share),
    "failed_alike": ("short runs of the job's name that failed within six hours", number),
    "thr": ("time slowed by heat or power brake", share),
    "clk": ("SM clock of its maximum", share),
    "cpu": ("the job's CPU cores in use", share),
    "main1": ("busiest single thread", share),
    "iop": ("time waiting for the disk", share),
    "dips_per_min": ("pauses per minute", number),
    "dips_cv": ("unevenness of pauses", number),
    "cyc_s": ("time from pause to pause", seconds),
    "cyc_cv": ("unevenness of that time", number),
    "long_n": ("pauses of 5 s and more", number),
    "long_frac": ("time in pauses of 5 s and more", share),
    "long_cv": ("unevenness of long pauses", number),
    "long_per_s": ("time between long pauses", seconds),
    "longest_low_s": ("longest pause", seconds),
    "corr": ("moves with the job's other GPUs (correlation)", number),
    "job_gpus": ("GPUs of the job", number),
    "processes": ("processes on the GPU", number),
    "ledger_idle": ("time that the ledger calls idle", share),
    "ranks_apart": ("ranks of the job that are not stuck", number),
    "rank_clock": ("slowest rank's clock of the median", share),
    "rank_ten": ("a rank's tensor activity off the median", share),
    "rank_pr_max": ("a rank's power off the median", share),
}
_OVER = {
    "min": "lowest of the job's GPUs",
    "max": "highest of the job's GPUs",
    "median": "median of the job's GPUs",
}


def measure(feature: str) -> Measure:
    """The feature in words; one without a word of its own by its name."""
    if feature in _NAMES:
        return Measure(*_NAMES[feature])
    name, _, over = feature.removeprefix("job_").rpartition("_")
    if feature.startswith("job_") and name in _NAMES and over in _OVER:
        label, shown = _NAMES[name]
        return Measure(f"{label}, {_OVER[over]}", shown)
    return Measure(feature.replace("_", " "), number)


def shown(feature: str, value: float | None) -> str:
    """The value with its unit; "not read" where it is None or NaN."""
    return "not read" if value is None or isnan(value) else measure(feature).shown(value)


def bound(feature: str, value: float, *, is_lower_bound: bool) -> str:
    """ "at least 30 %", "below 85 %"."""
    return f"{'at least' if is_lower_bound else 'below'} {measure(feature).shown(value)}"
