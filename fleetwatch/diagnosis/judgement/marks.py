"""The stretches of a window's curves that a verdict rests on: pauses, and spinning at near-idle
power. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from fleetwatch.ledger.policy import Policy

LOW = 0.10  # utilisation, as in `util_low_fraction`
MOST = 0.5  # of a step
COLUMNS = (
    "util_mean",
    "util_low_fraction",
    "spin_fraction",
    "power_w",
    "tensor_active",
    "dram_active",
)
POLICY = Policy()
PAUSE = "pause"
SPINNING = "spinning"
MAX_MARKS = 200  # drawn; a sawtooth of seconds has no stretch of its own

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch [start_ms, end_ms) and what it is."""

    start_ms: int
    end_ms: int
    kind: str


def marks(
    starts_ms: Sequence[int],
    step_ms: int,
    columns: Mapping[str, Values],
    *,
    waiting_w: float | None = None,
) -> list[Mark]:
    """Steps of which most is a pause, or most spinning, joined; the longest MAX_MARKS in order of
    time.

    Where nobody told how much of a step spins, one that is full and takes `waiting_w` at most does,
    as the ledger has it.
    """
    unread: Values = [None] * len(starts_ms)
    steps = [columns.get(name, unread) for name in COLUMNS]
    every = []
    for kind, stretch in groupby(
        zip(starts_ms, _kinds(steps, waiting_w), strict=True), itemgetter(1)
    ):
        starts = [start_ms for start_ms, _ in stretch]
        if kind:
            every.append(Mark(starts[0], starts[-1] + step_ms, kind))
    longest = sorted(every, key=lambda mark: mark.start_ms - mark.end_ms)[:MAX_MARKS]
    return sorted(longest, key=lambda mark: mark.start_ms)


def _kinds(columns: Sequence[Values], waiting_w: float | None) -> list[str]:
    """Of each step, by the values of COLUMNS."""
    return [
        _kind(util, low, _spin(spin, util, power_w, _works(tensor, dram), waiting_w))
        for util, low, spin, power_w, tensor, dram in zip(*columns, strict=True)
    ]


def _works(tensor: float | None, dram: float | None) -> bool:
    """Whether the units compute or move data, as far as that was read."""
    computes = (tensor or 0.0) >= POLICY.spin_tensor_max
    return computes or (dram or 0.0) >= POLICY.spin_dram_max


def _spin(
    spin: float | None,
    util: float | None,
    power_w: float | None,
    works: bool,
    waiting_w: float | None,
) -> float | None:
    """The share of the step that spins: as it was told, else by its means; None where neither
    tells.
    """
    if spin is not None or util is None or power_w is None or waiting_w is None:
        return spin
    return float(util >= POLICY.spin_util_min and power_w <= waiting_w and not works)


def _kind(util: float | None, low: float | None, spin: float | None) -> str:
    """What most of a step is; "" = neither, or not read."""
    if spin is not None and spin >= MOST:
        return SPINNING
    if low is not None:
        return PAUSE if low >= MOST else ""
    return PAUSE if util is not None and util < LOW else ""
