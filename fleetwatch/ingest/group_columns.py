"""The tables of many batches in packed form, checked together: all columns of a group in one pass.
Pure.

Within the limits of the wire (agent/wire.py), and no table that it would refuse: what is not judged
valid here takes `agent.packed` and `agent.wire.parse` to be judged.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from agent import packed, wire
from fleetwatch.lib.array_types import Array, Floats, Ints, Mask
from fleetwatch.telemetry import packed_columns
from fleetwatch.telemetry.packed_columns import HEAD, PackedTable

_WINDOWS, _HOST = range(2)
_GPU, _START, _OBSERVED = (packed.PLACES[name] for name in ("gpu", "start_ms", "observed_ms"))
_REQUIRED = ({_GPU, _START, _OBSERVED}, {_START})
_OTHERS = (wire.WINDOW_COLUMNS, wire.HOST_COLUMNS)
_PROCESS_COUNT = packed.PLACES["process_count"]
# What says of a host sample how long it is, for all of them together: a second at least.
_SAMPLE_MS = 1000
# Bytes of the column of starts of which the layout is kept: 256 rows, a minute of 42 GPUs, at the
# widest. A sender may have tables of megabytes, each laid out in another way.
MAX_KEPT_LAYOUT = 2048


class Tables(NamedTuple):
    """One batch's tables, of so many GPUs and windows of this length."""

    windows: PackedTable
    host: PackedTable
    gpu_count: int
    length_ms: int


class Layout(NamedTuple):
    """Which rows a table has, whenever it begins."""

    starts: tuple[int, ...]  # different ones, ascending, as numbers of the column
    last: frozenset[int]  # positions of the GPUs that have a row with the last start


class Clock(NamedTuple):
    """What the numbers of a column of starts mean."""

    base: int
    step: int

    def times(self, numbers: Sequence[int]) -> list[int]:
        return [self.base + self.step * (number - 1) for number in numbers]


class Rows(NamedTuple):
    """What the valid tables of one batch say of when; `host` has no start where there is none."""

    windows: int  # how many
    clock: Clock
    layout: Layout
    host_clock: Clock
    host: Layout
    has_process_count: bool

    @property
    def starts(self) -> list[int]:
        """The different starts of windows, ascending."""
        return self.clock.times(self.layout.starts)

    @property
    def host_starts(self) -> list[int]:
        """The different starts of host samples, ascending."""
        return self.host_clock.times(self.host.starts)


_NO_ROWS = Layout((), frozenset())
_NO_CLOCK = Clock(0, 0)


class _Limits(NamedTuple):
    """Of each kind (windows, host samples) and place of a column; no value is within NaN."""

    low: Floats
    high: Floats
    is_required: Mask


def _limits() -> _Limits:
    limits = _Limits(
        np.full((2, 256), np.nan), np.full((2, 256), np.nan), np.zeros((2, 256), np.bool_)
    )
    most = {
        "gpu": wire.MAX_LIST,
        "start_ms": wire.MAX_TIME_MS,
        "observed_ms": wire.MAX_WINDOW_S * 1000,
    }
    for kind, names in enumerate(_OTHERS):
        for place in _REQUIRED[kind]:
            limits.low[kind, place] = 0
            limits.high[kind, place] = most[packed.NAMES[place]]
            limits.is_required[kind, place] = True
        for name in names:
            at = kind, packed.PLACES[name]
            limits.low[at], limits.high[at] = wire.LIMITS[name]
    return limits


_LIMITS = _limits()


class _Shape(NamedTuple):
    """Which of a table's columns is which; `gpu` is 0 of host samples."""

    start: int
    gpu: int
    has_process_count: bool


@lru_cache(maxsize=256)
def _shape(places: bytes, kind: int) -> _Shape | None:
    """None for columns that are not those of such a table."""
    required = _REQUIRED[kind]
    possible = {*required, *(packed.PLACES[name] for name in _OTHERS[kind])}
    if not required <= set(places) <= possible or len(set(places)) < len(places):
        return None
    gpu = places.index(_GPU) if kind == _WINDOWS else 0
    return _Shape(places.index(_START), gpu, _PROCESS_COUNT in places)


class _Column(NamedTuple):
    """One of starts, or of GPUs: what its numbers mean, and they."""

    clock: Clock
    numbers: bytes


class _Table(NamedTuple):
    """One of a batch."""

    kind: int
    packed: PackedTable
    shape: _Shape


def read_rows(batches: Sequence[Tables]) -> list[Rows | None]:
    """What each says of when, where all its columns are valid; None where they are not, or not to
    be said here.
    """
    rows: list[Rows | None] = [None] * len(batches)
    listed = [(at, tables) for at, each in enumerate(batches) if (tables := _tables(each))]
    if not listed:
        return rows
    batch_of = [at for at, tables in listed for _ in tables]
    group = _Group([table for _, tables in listed for table in tables])
    of_tables = [batches[at] for at in batch_of]
    for at, of_batch in group.rows(_valid(batch_of, group.are_valid(of_tables))).items():
        rows[at] = of_batch
    return rows


def _valid(batch_of: Sequence[int], are_valid: Sequence[bool]) -> list[int]:
    """The batch of each table; -1 of tables of which one is not valid."""
    wrong = {at for at, is_valid in zip(batch_of, are_valid, strict=True) if not is_valid}
    return [-1 if at in wrong else at for at in batch_of]


def _tables(batch: Tables) -> list[_Table] | None:
    """Those of the batch; None where it has no windows, or columns that are not read here."""
    shape = _shape(batch.windows.places, _WINDOWS)
    if shape is None or not batch.windows.rows:
        return None
    windows = _Table(_WINDOWS, batch.windows, shape)
    if not batch.host.columns and not batch.host.rows:
        return [windows]
    shape = _shape(batch.host.places, _HOST)
    if shape is None or not batch.host.rows:
        return None
    return [windows, _Table(_HOST, batch.host, shape)]


class _Group:
    """All numbers of some tables, one column after the other."""

    def __init__(self, tables: Sequence[_Table]) -> None:
        self._tables = tables
        packs = [table.packed for table in tables]
        columns = np.array([each.columns for each in packs])
        self._firsts = np.cumsum(columns) - columns  # each table's first column
        self._table_of = np.repeat(np.arange(len(packs)), columns)
        lengths = np.array([each.rows for each in packs])[self._table_of]
        self._starts = np.cumsum(lengths) - lengths
        self._heads: Array = np.frombuffer(b"".join([each.heads for each in packs]), HEAD)
        self._numbers = packed_columns.numbers_of(packs)
        self._least = np.minimum.reduceat(self._numbers, self._starts)
        self._last = np.maximum.reduceat(self._numbers, self._starts)

    def are_valid(self, batches: Sequence[Tables]) -> list[bool]:
        """Of each table of these batches whether its columns are within the limits."""
        kind = self._kinds[self._table_of]
        place = self._heads["place"]
        lengths_ms = np.array([each.length_ms for each in batches])
        high = self._high(batches, lengths_ms)
        is_whole = (self._least > 0) & (self._heads["decimals"] == 0)
        is_valid = packed_columns.are_within(
            self._heads, self._first(), self._last, _LIMITS.low[kind, place], high
        ) & (is_whole | ~_LIMITS.is_required[kind, place])
        valid: Mask = np.logical_and.reduceat(is_valid, self._firsts)
        return list((valid & self._are_short(lengths_ms)).tolist())

    def _high(self, batches: Sequence[Tables], lengths_ms: Ints) -> Floats:
        """The most that each column may hold."""
        place = self._heads["place"]
        high = _LIMITS.high[self._kinds[self._table_of], place]
        last_gpus = np.array([each.gpu_count - 1 for each in batches])
        high = np.where(place == _GPU, last_gpus[self._table_of], high)
        return np.where(place == _OBSERVED, lengths_ms[self._table_of], high)

    @property
    def _kinds(self) -> Ints:
        return np.array([table.kind for table in self._tables])

    @property
    def _times(self) -> Ints:
        """Each table's column of starts."""
        times: Ints = self._firsts + np.array([table.shape.start for table in self._tables])
        return times

    @property
    def _gpus(self) -> Ints:
        """Each table's column of GPUs."""
        gpus: Ints = self._firsts + np.array([table.shape.gpu for table in self._tables])
        return gpus

    def _first(self) -> Array:
        """Of each column the smallest number less 1, one that was not read being the largest."""
        if self._least.all():
            return self._least - 1
        return np.minimum.reduceat(self._numbers - 1, self._starts)

    def _are_short(self, lengths_ms: Ints) -> Mask:
        """Of each table whether it spans no more time than one may."""
        times = self._times
        spans = (self._last - self._least)[times].astype(np.float64)
        spans *= self._heads["step"][times]
        shortest_ms = np.where(self._kinds == _WINDOWS, lengths_ms, _SAMPLE_MS)
        are_short: Mask = spans + shortest_ms <= wire.MAX_SPAN_MS
        return are_short

    def rows(self, batch_of: Sequence[int]) -> dict[int, Rows]:
        """What each batch says, by its number; those of number -1 are left out."""
        rows: dict[int, Rows] = {}
        starts = self._columns(self._times)
        gpus = self._columns(self._gpus)
        width = self._numbers.itemsize
        for at, table, of_starts, of_gpus in zip(batch_of, self._tables, starts, gpus, strict=True):
            if at < 0:
                continue
            if table.kind == _HOST:
                layout = _layout(width, of_starts.numbers)
                rows[at] = rows[at]._replace(host_clock=of_starts.clock, host=layout)
                continue
            layout = _layout(width, of_starts.numbers, of_gpus.numbers, of_gpus.clock)
            rows[at] = Rows(
                table.packed.rows,
                of_starts.clock,
                layout,
                _NO_CLOCK,
                _NO_ROWS,
                table.shape.has_process_count,
            )
        return rows

    def _columns(self, columns: Ints) -> list[_Column]:
        """One of each table."""
        heads = self._heads[columns]
        width = self._numbers.itemsize
        raw = self._numbers.tobytes()
        starts = (self._starts[columns] * width).tolist()
        clocks = zip(heads["base"].tolist(), heads["step"].tolist(), strict=True)
        return [
            _Column(Clock(base, step), raw[start : start + table.packed.rows * width])
            for (base, step), start, table in zip(clocks, starts, self._tables, strict=True)
        ]


def _layout(width: int, starts: bytes, gpus: bytes = b"", clock: Clock = _NO_CLOCK) -> Layout:
    """Of columns of numbers of so many bytes: a node's batches are laid out alike, and those of
    nodes like it too.
    """
    is_kept = len(starts) <= MAX_KEPT_LAYOUT
    return (_kept_layout if is_kept else _layout_of)(width, starts, gpus, clock)


def _layout_of(width: int, starts: bytes, gpus: bytes, clock: Clock) -> Layout:
    numbers = np.frombuffer(starts, f"<u{width}").tolist()
    last = max(numbers)
    positions = clock.times(np.frombuffer(gpus, f"<u{width}").tolist())
    rows = zip(positions, numbers, strict=False)  # host samples are of no GPU
    return Layout(
        tuple(sorted(set(numbers))), frozenset(gpu for gpu, start in rows if start == last)
    )


_kept_layout = lru_cache(maxsize=4096)(_layout_of)
