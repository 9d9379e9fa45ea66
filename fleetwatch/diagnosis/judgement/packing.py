"""Figures of cells as bytes: one block of single precision, so that an hour of a node is read in
one go. Pure.

What is packed is derived and kept for days: a format that is not this one counts as not there, and
is made again.
"""

import json
import struct
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.judgement.cell_figures import NAMES
from fleetwatch.telemetry.directory import compress, decompress

FORMAT = b"C5"
_ROW = {name: row for row, name in enumerate(NAMES)}
_HEAD = struct.Struct("<iii")  # bytes of the words, GPUs, cells
_WORDS = msgspec.json.Decoder(tuple[tuple[str, ...], tuple[int, ...]])


@dataclass(frozen=True, slots=True)
class Hour:
    """The figures of a node's GPUs in a clock hour: NAMES x GPUs x cells, NaN = not read. Seven
    digits are kept.

    `digests` has of each cell a digest of what the ledger said of it when it was made.
    """

    gpu_ids: NDArray[np.int64]
    figures: NDArray[np.float32]
    digests: tuple[int, ...]

    def of(self, name: str) -> NDArray[np.float32]:
        """One figure: GPUs x cells."""
        figure: NDArray[np.float32] = self.figures[_ROW[name]]
        return figure


def pack(hour: Hour) -> bytes:
    """The hour as bytes, without the figures that nobody read."""
    is_read = np.flatnonzero((~np.isnan(hour.figures)).any(axis=(1, 2)))
    names = [NAMES[row] for row in is_read.tolist()]
    words = json.dumps([names, hour.digests]).encode()
    block = hour.figures[is_read].astype("<f4").tobytes()
    head = _HEAD.pack(len(words), *hour.figures.shape[1:])
    return FORMAT + compress(head + hour.gpu_ids.astype("<i8").tobytes() + words + block)


def unpack(payload: bytes) -> Hour | None:
    """The hour; None for bytes of another format."""
    if not payload.startswith(FORMAT):
        return None
    whole = decompress(payload[len(FORMAT) :])
    length, gpus, cells = _HEAD.unpack_from(whole)
    words = _HEAD.size + 8 * gpus
    names, digests = _WORDS.decode(whole[words : words + length])
    figures = np.full((len(NAMES), gpus, cells), np.nan, dtype=np.float32)
    block = np.frombuffer(whole, dtype="<f4", offset=words + length)
    figures[[_ROW[name] for name in names]] = block.reshape(len(names), gpus, cells)
    gpu_ids = np.frombuffer(whole, dtype="<i8", offset=_HEAD.size, count=gpus)
    return Hour(gpu_ids, figures, digests)
