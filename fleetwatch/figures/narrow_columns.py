"""Columns in as few bytes as they need: of whole numbers how far each lies above the lowest one, in
the fewest bytes that hold the farthest; floats as they are. Smaller than records, and read faster.
Pure.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROWS = Struct("<I")
# of each column: the lowest value, and bytes of a number; 0 = floats
_HEAD = np.dtype([("lowest", "<i8"), ("width", "u1")])
_WIDTHS = (1, 2, 4, 8)
_FLOAT = np.dtype("<f8")


def packed(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """The columns, all of one length, int64 or float64; whose they are says who reads them."""
    heads = np.zeros(len(columns), dtype=_HEAD)
    bodies = []
    for place, values in enumerate(columns.values()):
        if values.dtype.kind == "f":
            bodies.append(values.astype(_FLOAT).tobytes())
            continue
        lowest = values.min(initial=2**62)
        above = values - lowest
        width = _width(int(above.max(initial=0)))
        heads[place] = lowest, width
        bodies.append(above.astype(_kind(width)).tobytes())
    rows = len(next(iter(columns.values())))
    return b"".join([_ROWS.pack(rows), heads.tobytes(), *bodies])


def unpacked(content: bytes | memoryview, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The columns under the names with which they were packed, in that order."""
    (rows,) = _ROWS.unpack_from(content)
    heads = np.frombuffer(content, dtype=_HEAD, count=len(names), offset=_ROWS.size)
    place = _ROWS.size + heads.nbytes
    columns: dict[str, NDArray[Any]] = {}
    for name, (lowest, width) in zip(names, heads.tolist(), strict=True):
        body = np.frombuffer(content, dtype=_kind(width), count=rows, offset=place)
        columns[name] = body.astype(np.int64) + lowest if width else body.astype(np.float64)
        place += body.nbytes
    return columns


def _kind(width: int) -> np.dtype[Any]:
    return np.dtype(f"<u{width}") if width else _FLOAT


def _width(largest: int) -> int:
    return next(width for width in _WIDTHS if largest < 256**width)
