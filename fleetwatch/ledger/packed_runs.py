"""Parts of runs of many rows of ledger_hourruns at once, as a statement packs them."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.policy import STATES

Ints = NDArray[np.int64]

_ROW = np.dtype([("gpu", ">i8"), ("job", ">i8"), ("cut_ms", ">i8"), ("parts", ">i4")])
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i4")])

# Of rows, one after the other: GPU, holder (0 = nobody), cut and how many parts it has; then
# begins, ends and state_ms of all their parts, as array_send packs elements.
Packed = tuple[bytes, bytes, bytes, bytes]


class RunColumns(NamedTuple):
    """A value for each part; `job` is 0 where nobody holds the GPU."""

    gpu: Ints
    job: Ints
    start_ms: Ints
    end_ms: Ints
    states_ms: Ints  # parts x STATES

    def where(self, keep: NDArray[np.bool_]) -> "RunColumns":
        """These parts alone."""
        return RunColumns(*(column[keep] for column in self))


def unpacked(packed: Iterable[Packed]) -> RunColumns:
    """The parts of all that was packed, in its order."""
    columns = [b"".join(column) for column in zip(*packed, strict=True)] or [b""] * 4
    rows = np.frombuffer(columns[0], dtype=_ROW)
    gpu, job, cut_ms = (
        np.repeat(rows[name].astype(np.int64), rows["parts"]) for name in ("gpu", "job", "cut_ms")
    )
    begins, ends, states = (
        np.frombuffer(column, dtype=_ELEMENT)["value"].astype(np.int64) for column in columns[1:]
    )
    return RunColumns(gpu, job, cut_ms + begins, cut_ms + ends, states.reshape(-1, len(STATES)))
