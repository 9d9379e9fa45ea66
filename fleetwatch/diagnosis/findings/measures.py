"""What detectors compare, in words with units: the name of a feature and how its value is shown.

Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan

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
    """Bytes per second, of 10^9 as links are sold and charts draw them: 4.2 GB/s, 35 MB/s."""
    return f"{value / 1e9:.1f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def seconds(value: float) -> str:
    """12 s, 4 min."""
    if value >= 600:
        return f"{value / 60:.0f} min"
    return f"{value:.0f} s" if value >= 10 or value == round(value) else f"{value:.1f} s"


def run_length(value: float) -> str:
    """12 s, 45 min, 3 h 20 min, rounded down as the table of runs has them."""
    if value < 600:
        return seconds(value)
    hours, minutes = divmod(int(value) // 60, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def number(value: float) -> str:
    """3, 0.42."""
    return f"{value:.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"


_SHARES = {
    "util": "utilisation, mean",
    "util_max": "utilisation, highest reading",
    "util_lowest": "utilisation, lowest five minutes",
    "p5": "utilisation, all but the lowest 5 % of readings",
    "lo": "time below 10 % utilisation",
    "window_lo": "time in quiet windows",
    "hi": "time at 90 % utilisation and more",
    "spin": "time busy at near-idle power",
    "pr": "power between idle and limit, mean",
    "pr_max": "power between idle and limit, highest",
    "sm": "SM activity",
    "ten": "tensor activity",
    "dram": "memory bandwidth in use",
    "fp32": "FP32 activity",
    "fp64": "FP64 activity",
    "eng": "busiest video, JPEG or flow engine",
    "mem": "memory in use, mean",
    "mem_max": "memory in use, peak",
    "memory_at_end": "memory in use when the job ended",
    "thr": "time slowed by heat or power brake",
    "clk": "SM clock of its maximum",
    "cpu": "the job's CPU cores in use",
    "main1": "busiest single thread",
    "iop": "time waiting for the disk",
    "long_frac": "time in pauses of 5 s and more",
    "ledger_idle": "time idle",
    "rank_clock": "slowest rank's clock of the median",
    "rank_ten": "a rank's tensor activity off the median",
    "rank_pr_max": "a rank's power off the median",
}
_RATES = {
    "rx": "PCIe traffic to the GPU",
    "tx_max": "PCIe traffic from the GPU, highest",
    "nvl": "NVLink traffic",
    "nic_rx": "network traffic to the node",
    "disk_write": "disk writes of the node",
}
_SECONDS = {
    "cyc_s": "time from pause to pause",
    "long_per_s": "time between long pauses",
    "longest_low_s": "longest pause in it, from when that began",
}
_RUNS = {"quiet_s": "longest quiet run in it, from when that began"}
_NUMBERS = {
    "dram_leads": "memory bandwidth by its ceiling, of SM activity by its own",
    "memory_drops_per_min": "memory given back, times per minute",
    "failed_alike": "short runs of the job's name that failed within six hours",
    "dips_per_min": "pauses per minute",
    "dips_cv": "unevenness of pauses",
    "cyc_cv": "unevenness of that time",
    "long_n": "pauses of 5 s and more that began",
    "long_cv": "unevenness of long pauses",
    "corr": "moves with the job's other GPUs (correlation)",
    "job_gpus": "GPUs of the job",
    "processes": "processes on the GPU",
    "ranks_apart": "ranks of the job that are not stuck",
}
_MEASURES = {
    feature: Measure(label, shown)
    for labels, shown in (
        (_SHARES, share),
        (_RATES, rate),
        (_SECONDS, seconds),
        (_RUNS, run_length),
        (_NUMBERS, number),
    )
    for feature, label in labels.items()
}
_OVER = {
    "min": "lowest of the job's GPUs",
    "max": "highest of the job's GPUs",
    "median": "median of the job's GPUs",
}


def measure(feature: str) -> Measure:
    """The feature in words; one without a word of its own by its name."""
    if feature in _MEASURES:
        return _MEASURES[feature]
    name, _, over = feature.removeprefix("job_").rpartition("_")
    if feature.startswith("job_") and name in _MEASURES and over in _OVER:
        of_gpu = _MEASURES[name]
        return Measure(f"{of_gpu.label}, {_OVER[over]}", of_gpu.shown)
    return Measure(feature.replace("_", " "), number)


def shown(feature: str, value: float | None) -> str:
    """The value with its unit; "not read" where it is None or NaN."""
    return "not read" if value is None or isnan(value) else measure(feature).shown(value)


def bound(feature: str, value: float, *, is_lower_bound: bool) -> str:
    """ "at least 30 %", "below 85 %"."""
    return f"{'at least' if is_lower_bound else 'below'} {measure(feature).shown(value)}"
