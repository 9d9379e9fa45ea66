"""GPU time as columns: what the ledger says of each GPU, holder and kind of time, packed by
Postgres and read as it is. Pure.

A month of a large fleet is hundreds of thousands of spans; grouping and pricing columns of them
takes milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# as costs_span() of the database packs it (costs/sql/packed_span.sql)
RECORD = np.dtype(
    [
        ("gpu", ">i8"),
        ("job", ">i8"),
        ("kind", ">i2"),
        ("gpu_ms", ">i8"),
        ("energy_j", ">f8"),
        ("energy_ms", ">i8"),
    ]
)
# and costs_kind(): 8 x state + 2 x tier + whether it is useful by "a kernel was running" alone;
# kept in rows, so never in another order
STATES = (
    "useful",
    "underused",
    "stalled",
    "idle",
    "starting",
    "orphaned",
    "free",
    "unavailable",
    "unobserved",
)
TIERS = ("", "certain", "probable", "potential")
KINDS = tuple(
    (state, tier, is_busy_only)
    for state in STATES
    for tier in TIERS
    for is_busy_only in (False, True)
)

NO_JOB = 0  # ids begin with 1
_LOOSE = 16  # ids that lie so close together are numbered by counting, others by sorting


@dataclass(frozen=True, slots=True)
class Spans:
    """Columns of one length: GPU time of one GPU, holder and kind, in one step of time and era
    (between two changes of prices).
    """

    node: Ints
    step: Ints
    era: Ints
    gpu: Ints
    job: Ints  # NO_JOB = nobody held it
    kind: Ints  # place in KINDS
    gpu_ms: Ints
    energy_j: Floats  # NaN = not read
    energy_ms: Ints

    def where(self, chosen: Bools) -> "Spans":
        """Those of them."""
        return replace(
            self, **{column.name: getattr(self, column.name)[chosen] for column in fields(self)}
        )


def spans(rows: Sequence[tuple[int, int, int, bytes]]) -> Spans:
    """The rows of spans.sql."""
    packed = np.frombuffer(b"".join([row[3] for row in rows]), dtype=RECORD)
    lengths = [len(row[3]) // RECORD.itemsize for row in rows]
    node, step, era = (
        np.repeat(np.array([row[place] for row in rows], dtype=np.int64), lengths)
        for place in range(3)
    )
    gpu, job, kind, gpu_ms, energy_ms = (
        packed[name].astype(np.int64) for name in ("gpu", "job", "kind", "gpu_ms", "energy_ms")
    )
    return Spans(
        node, step, era, gpu, job, kind, gpu_ms, packed["energy_j"].astype(np.float64), energy_ms
    )


def joined(first: Spans, second: Spans) -> Spans:
    """The spans of both."""
    columns = {
        column.name: np.concatenate([getattr(first, column.name), getattr(second, column.name)])
        for column in fields(Spans)
    }
    return Spans(**columns)


def ids(packed: bytes) -> Ints:
    """Ids that Postgres packed by int8send."""
    return np.frombuffer(packed, dtype=">i8").astype(np.int64)


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and of each value its place among them."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low >= _LOOSE * len(values) + 1024:
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place
    is_there = np.zeros(high - low + 1, dtype=bool)
    is_there[values - low] = True
    distinct = np.flatnonzero(is_there)
    places = np.zeros(high - low + 1, dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct + low, places[values - low]


def sums(place: Ints, values: Ints, count: int) -> Ints:
    """The sum of the values at each place.

    Exact: floats count whole numbers up to 2^53, 285,000 GPU-years of milliseconds.
    """
    return np.bincount(place, weights=values, minlength=count).astype(np.int64)
