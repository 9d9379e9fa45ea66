"""Columns of an interval, hot and sealed, as numpy arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Frame:
    """Windows of a node's GPUs, one per position, sorted by (gpu_id, start_ms, boot_start_ms, sequence).

    Two windows may overlap in time (two boots, two senders); none is there twice.
    A value that was not read is NaN. Times are corrected for the agent's clock.
    """

    gpu_id: Ints
    start_ms: Ints
    end_ms: Ints  # start + that window's length
    observed_ms: Ints
    boot_start_ms: Ints  # as the agent said it: with `sequence` the order of batches
    sequence: Ints
    columns: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.gpu_id)


@dataclass(frozen=True, slots=True)
class HostFrame:
    """Host samples of a node, sorted by (start_ms, boot_start_ms, sequence); NaN = not read."""

    start_ms: Ints
    end_ms: Ints
    boot_start_ms: Ints
    sequence: Ints
    columns: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.start_ms)
