"""The GPU models that the simulator knows: what the driver says of them and how they draw power."""

from dataclasses import dataclass
from typing import Tuple

GIB = 1024**3
MIB = 1024**2

Range = Tuple[float, float]


@dataclass(frozen=True)
class Hardware:
    """One GPU product.

    `idle_w` is the bare board; `context_w` what a resident CUDA context adds.
    """

    driver_name: str
    memory_total_bytes: int
    power_limit_w: float
    idle_w: Range
    context_w: float
    sm_count: int
    clock_idle_hz: float
    clock_max_hz: float
    has_gpm: bool  # SM, tensor and DRAM activity can be read (Hopper and newer)
    has_nvlink: bool = True


# Idle and limit: k8s-test-infra profiles, AcmeTrace; context: arXiv 2605.23918.
HARDWARE = {
    "H100": Hardware(
        "NVIDIA H100 80GB HBM3",
        81559 * MIB,
        700.0,
        (72.0, 92.0),
        48.0,
        132,
        345e6,
        1980e6,
        has_gpm=True,
    ),
    "H200": Hardware(
        "NVIDIA H200", 143771 * MIB, 700.0, (78.0, 92.0), 48.0, 132, 345e6, 1980e6, has_gpm=True
    ),
    "A100": Hardware(
        "NVIDIA A100-SXM4-80GB",
        81920 * MIB,
        400.0,
        (60.0, 67.0),
        30.0,
        108,
        210e6,
        1410e6,
        has_gpm=False,
    ),
    "L40S": Hardware(
        "NVIDIA L40S",
        46068 * MIB,
        350.0,
        (35.0, 44.0),
        60.0,
        142,
        210e6,
        2520e6,
        has_gpm=False,
        has_nvlink=False,
    ),
    "L4": Hardware(
        "NVIDIA L4",
        23034 * MIB,
        72.0,
        (13.0, 16.0),
        14.0,
        58,
        210e6,
        2040e6,
        has_gpm=False,
        has_nvlink=False,
    ),
    "T4": Hardware(
        "Tesla T4",
        15360 * MIB,
        70.0,
        (10.0, 12.0),
        15.0,
        40,
        300e6,
        1590e6,
        has_gpm=False,
        has_nvlink=False,
    ),
}
