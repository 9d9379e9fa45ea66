"""The stretches of a window's curves that a verdict rests on: pauses, and spinning at near-idle
power. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from fleetwatch.ledger.judgement.observations import Floats
from fleetwatch.ledger.policy import Policy

LOW = 0.10  # utilisation, as in `util_low_fraction`
MOST = 0.5  # of a step
WHOLE = 0.9  # of a step that is one pause: of a sawtooth most is below LOW, and nothing of it rests
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
IDLE = "idle"  # a pause of a GPU that does nothing in between either
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
    """Steps that are a pause from end to end, or mostly spinning, joined; the longest MAX_MARKS in
    order of time.

    Where nobody told how much of a step spins, one that is full and takes `waiting_w` at most does,
    as the ledger has it.
    """
    unread: Values = [None] * len(starts_ms)
    steps = np.array([columns.get(name, unread) for name in COLUMNS], dtype=np.float64)
    every = []
    for kind, stretch in groupby(
        zip(starts_ms, _kinds(steps, waiting_w), strict=True), itemgetter(1)
    ):
        starts = [start_ms for start_ms, _ in stretch]
        if kind:
            every.append(Mark(starts[0], starts[-1] + step_ms, kind))
    longest = sorted(every, key=lambda mark: mark.start_ms - mark.end_ms)[:MAX_MARKS]
    return sorted(longest, key=lambda mark: mark.start_ms)


def _kinds(columns: Floats, waiting_w: float | None) -> list[str]:
    """What each step is, by the values of COLUMNS (NaN = not read: it is nothing); "" =
    neither.
    """
    util, low, spin, power_w, tensor, dram = columns
    spins = spin >= MOST
    if waiting_w is not None:
        works = (tensor >= POLICY.spin_tensor_max) | (dram >= POLICY.spin_dram_max)
        is_waiting = (util >= POLICY.spin_util_min) & (power_w <= waiting_w) & ~works
        spins |= np.isnan(spin) & is_waiting
    pauses = np.where(np.isnan(low), util < LOW, low >= WHOLE)
    kinds: list[str] = np.select([spins, pauses], [SPINNING, PAUSE], "").tolist()
    return kinds
