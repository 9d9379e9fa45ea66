"""Figures of cells as bytes: one block of single precision, so that an hour of a node is read in one go. Pure.

What is packed is derived and kept for days: a format that is not this one counts as not there, and is made again.
"""

import json
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

FORMAT = b"C1"
LEVEL = 1  # the rows live for two days


def pack(gpu_id: NDArray[np.int64], figures: Mapping[str, NDArray[np.float64]]) -> bytes:
    """A row per GPU and cell; figures that nobody read are left out, the others keep seven digits."""
    whole = np.array(list(figures.values()), dtype="<f4")
    is_read = ~np.isnan(whole).all(axis=1)
    names = json.dumps([name for name, one in zip(figures, is_read.tolist(), strict=True) if one]).encode()
    block = whole[is_read].tobytes()
    head = np.array([len(names), len(gpu_id)], dtype="<i4").tobytes()
    return FORMAT + zlib.compress(head + gpu_id.astype("<i8").tobytes() + names + block, LEVEL)


def unpack(payload: bytes) -> dict[str, NDArray[np.float64]] | None:
    """`gpu_id` and the figures, a row per GPU and cell; None for bytes of another format."""
    if not payload.startswith(FORMAT):
        return None
    whole = zlib.decompress(payload[len(FORMAT) :])
    length, rows = (int(number) for number in np.frombuffer(whole, dtype="<i4", count=2))
    names = json.loads(whole[8 + 8 * rows : 8 + 8 * rows + length])
    block = np.frombuffer(whole, dtype="<f4", offset=8 + 8 * rows + length).astype(np.float64).reshape(len(names), rows)
    return {"gpu_id": np.frombuffer(whole, dtype="<i8", offset=8, count=rows), **dict(zip(names, block, strict=True))}
