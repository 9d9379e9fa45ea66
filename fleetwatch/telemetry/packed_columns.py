"""The columns of batches in packed form as numpy arrays, many batches at once. Pure.

`agent.packed` says what they mean; a property test reads the same batches by both.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from agent import packed
from fleetwatch.lib.array_types import Array, Floats, Ints, Mask
from fleetwatch.telemetry.window_tables import Table

HEAD = np.dtype([("place", "u1"), ("decimals", "u1"), ("base", "<i8"), ("step", "<u8")])
_POWERS = 10.0 ** np.arange(256)
_POWERS[packed.MAX_DECIMALS + 1 :] = np.nan  # no number of so many decimals is one
_SIGN = np.int64(-(2**63))
_NONE = np.empty(0, np.int64)


class PackedTable(NamedTuple):
    """One batch's windows or host samples, as its bytes."""

    columns: int
    rows: int
    planes: int
    heads: bytes
    numbers: bytes  # plane after plane

    @property
    def places(self) -> bytes:
        """Of its columns in packed.NAMES."""
        return self.heads[:: HEAD.itemsize]

    @property
    def size(self) -> int:
        """Bytes, its head among them."""
        return packed.TABLE.size + len(self.heads) + len(self.numbers)


class Run(NamedTuple):
    """Tables of the same columns and as many rows each: values are
    (base + step x (number - 1)) / 10^decimals; number 0: not read.

    `heads`: tables x columns; `numbers`: tables x columns x rows; unknown columns are named "".
    """

    names: tuple[str, ...]
    heads: Array
    numbers: Ints

    @property
    def rows(self) -> int:
        """Of all its tables."""
        return len(self.numbers) * int(self.numbers.shape[2])

    def values(self, columns: Sequence[int]) -> Floats:
        """Columns x tables x rows; NaN: not read."""
        heads = self.heads[:, columns, None]
        numbers = self.numbers[:, columns]
        whole = _whole(heads, numbers)
        values = whole / _POWERS[heads["decimals"]]
        is_raw = heads["decimals"] == packed.RAW
        if is_raw.any():
            values = np.where(is_raw, (whole ^ _SIGN).view(np.float64), values)
        values[numbers == 0] = np.nan
        by_column: Floats = values.swapaxes(0, 1)
        return by_column

    def whole_numbers(self, name: str) -> Ints:
        """Tables x rows of the column, each of whose values was read and is whole."""
        at = self.names.index(name)
        return _whole(self.heads[:, at, None], self.numbers[:, at])


def _whole(heads: Array, numbers: Ints) -> Ints:
    whole: Ints = heads["base"] + heads["step"].view(np.int64) * (numbers - 1)
    return whole


def tables(content: bytes, place: int) -> Iterator[PackedTable]:
    """The tables that begin there: windows and host samples. Raises WireError."""
    for _ in packed.TABLES:
        columns, rows, planes, end = packed.table_at(content, place)
        first = place + packed.TABLE.size
        numbers = first + columns * packed.COLUMN.size
        yield PackedTable(columns, rows, planes, content[first:numbers], content[numbers:end])
        place = end


def runs(parts: Iterable[PackedTable]) -> list[Run]:
    """The tables in their order, neighbours alike together; those without a row are left out."""
    alike = groupby((part for part in parts if part.rows), key=shape)
    return [_run(list(run)) for _, run in alike]


def shape(part: PackedTable) -> tuple[int, int, bytes]:
    """Equal for tables of which one run can be made."""
    return part.rows, part.planes, part.places


def _run(parts: Sequence[PackedTable]) -> Run:
    columns, rows, planes, heads, _ = parts[0]
    shuffled = np.frombuffer(b"".join([part.numbers for part in parts]), np.uint8)
    words = np.zeros((len(parts), columns * rows, 8), np.uint8)
    words[:, :, :planes] = shuffled.reshape(len(parts), planes, columns * rows).swapaxes(1, 2)
    return Run(
        _names(heads[:: HEAD.itemsize]),
        np.frombuffer(b"".join([part.heads for part in parts]), HEAD).reshape(-1, columns),
        words.view("<i8").reshape(len(parts), columns, rows),
    )


@lru_cache(maxsize=256)
def _names(places: bytes) -> tuple[str, ...]:
    return tuple(packed.NAMES[at] if at < len(packed.NAMES) else "" for at in places)


def whole_numbers(read: Sequence[Run], name: str) -> Ints:
    """The column's values of one run after the other; all of them were read."""
    return np.concatenate([_NONE, *(run.whole_numbers(name).ravel() for run in read)])


def floats(read: Sequence[Run], names: Iterable[str]) -> Table:
    """Those of the columns that any table has, of one run after the other; NaN: not read."""
    total = sum(run.rows for run in read)
    there = set().union(*(run.names for run in read)) if read else set()
    columns = {name: np.full(total, np.nan) for name in names if name in there}
    start = 0
    for run in read:
        end = start + run.rows
        wanted = [at for at, name in enumerate(run.names) if name in columns]
        for at, values in zip(wanted, run.values(wanted), strict=True):
            columns[run.names[at]][start:end] = values.ravel()
        start = end
    return columns


def numbers_of(parts: Sequence[PackedTable]) -> Array:
    """The numbers of all columns of the tables, one column after the other, in as many bytes as the
    widest of them has.
    """
    sizes = [part.columns * part.rows for part in parts]
    width = max(part.planes for part in parts)
    words = np.empty((sum(sizes), width), np.uint8)
    for plane in range(width):
        # a table with fewer planes has zeros in it
        shuffled = [
            part.numbers[plane * size : (plane + 1) * size] if plane < part.planes else bytes(size)
            for part, size in zip(parts, sizes, strict=True)
        ]
        words[:, plane] = np.frombuffer(b"".join(shuffled), np.uint8)
    return words.view(f"<u{width}").ravel()


def are_within(heads: Array, first: Array, last: Array, low: Floats, high: Floats) -> Mask:
    """Of each column whether its values lie within its limits; False for one that holds bits of
    doubles: it takes `agent.packed` to judge them.

    `first`: the smallest of its numbers less 1, one that was not read being the largest of all;
    `last`: the largest of its numbers.
    """
    base, step = (heads[name].astype(np.float64) for name in ("base", "step"))
    power = _POWERS[heads["decimals"]]
    most = base + step * (last.astype(np.float64) - 1)
    # as doubles: what is one beyond them is rounded to them
    is_exact = (base > -packed.EXACT) & (most < packed.EXACT)
    is_within: Mask = ((base + step * first) / power >= low) & (most / power <= high) & is_exact
    # nothing was read of a column of that name
    is_empty: Mask = (last == 0) & ~np.isnan(power) & ~np.isnan(low)
    return is_within | is_empty
