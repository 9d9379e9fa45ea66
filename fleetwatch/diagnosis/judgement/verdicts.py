"""One primary cause per GPU, job and five-minute cell: the first rule of the table that holds. Pure
numpy.

A rule opens after two windows in a row and closes after three without it; while open it covers
all the cells of its windows. Where windows of several lengths, or several rules, cover a cell,
the rule that stands first in the table is its cause, the others are "also possible".
At both ends of such a stretch cells are left out that are well by themselves: a window that is
for a third in the cause may hold its rule, so the stretch reaches over where it began.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause import WELL
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, DETECTORS, UNDETERMINED
from fleetwatch.diagnosis.judgement import lane_parts
from fleetwatch.diagnosis.judgement.cell_figures import CELL_MS
from fleetwatch.diagnosis.judgement.features import Features, Floats, Ints, Lanes, Mask
from fleetwatch.diagnosis.judgement.rules import COVERAGE, Detector, Found, Levels

DATA_S = 600.0  # observed seconds that a rule about running work needs
MISSES = 3  # windows in a row without it that close a rule
HOUR = 12  # cells
EDGE = HOUR  # at each end of a stretch that may be left out, at most half a window
# of the held time, by the ledger: what wastes more is neither well nor without telemetry
WASTEFUL = 0.15
ROUNDING = 1e-9

# A cause's number is its rank.
CAUSES: tuple[str, ...] = tuple(cause.code for cause in CATALOGUE if cause.is_of_cells)
NUMBER = {cause: number for number, cause in enumerate(CAUSES)}
NOT_HELD = -1
ALONE = (NOT_HELD, *(NUMBER[cause.code] for cause in CATALOGUE if cause.is_alone))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Per lane and cell the cause's number in CAUSES (NOT_HELD where the job does not hold the
    GPU), how sure it is, the bits (1 << number) of other causes that are possible, and the
    recoverable share, 0 to 1, from low to high.
    """

    cause: NDArray[np.int8]
    confidence: Levels
    also: NDArray[np.int64]
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Covered:
    """Where one detector covers a cell, with the most that its windows say; `possible`: where
    nothing read rules it out.

    Arrays are of the lanes `rows` (ascending) alone, from the cell `first` on: of all others it
    says nothing.
    """

    detector: Detector
    rows: Ints
    first: int
    cells: Mask
    confidence: Levels
    low: Floats
    high: Floats
    possible: Mask

    def at(self, where: Mask) -> tuple[Ints, Ints]:
        """The places, in arrays of all lanes and cells, at which a mask of this one's is true."""
        row, cell = np.nonzero(where)
        return self.rows[row], cell + self.first


def judge(lanes: Lanes, *, since: int = 0) -> Verdicts:
    """The cause of each cell from `since` on (before, it means nothing); the cells before are the
    context of long windows.
    """
    shape = lanes.held.shape
    told = Verdicts(
        cause=np.full(shape, NOT_HELD, dtype=np.int8),
        confidence=np.zeros(shape, dtype=np.int8),
        also=np.zeros(shape, dtype=np.int64),
        low=np.zeros(shape),
        high=np.zeros(shape),
    )
    for part in lane_parts.parts(lanes, since=since):
        one = _judged(part.lanes, max(since - int(part.columns[:, 0].max()), 0))
        part.put(told.cause, one.cause)
        part.put(told.confidence, one.confidence)
        part.put(told.also, one.also)
        part.put(told.low, one.low)
        part.put(told.high, one.high)
    return told


def _judged(lanes: Lanes, since: int) -> Verdicts:
    shape = lanes.held.shape
    cause = np.full(shape, NUMBER[UNDETERMINED], dtype=np.int8)
    confidence, also = np.zeros(shape, dtype=np.int8), np.zeros(shape, dtype=np.int64)
    low, high = np.zeros(shape), np.zeros(shape)
    now = Features(lanes, 1)
    with np.errstate(invalid="ignore"):
        is_wasteful = now["wasted_of_cell"] > WASTEFUL + ROUNDING
    # the last written wins: from the bottom of the table to its top
    for one in reversed(list(covered(lanes, since=since))):
        number = NUMBER[one.detector.cause]
        cells = one.cells
        if BY_CODE[one.detector.cause].verdict == WELL:
            cells = cells & ~is_wasteful[one.rows, one.first :]
        else:
            also[one.at(cells | one.possible)] |= 1 << number
        at = one.at(cells)
        cause[at], confidence[at] = number, one.confidence[cells]
        low[at], high[at] = one.low[cells], one.high[cells]
    told = Verdicts(cause, confidence, also, low, high)
    _overrule(told, now, is_wasteful)
    is_told = cause >= 0
    also[is_told] &= ~(np.int64(1) << cause[is_told].astype(np.int64))
    # what was read of these leaves nothing else: without any process there is no session, service
    # or small model
    also[np.isin(cause, ALONE)] = 0
    return told


def _overrule(told: Verdicts, now: Features, is_wasteful: Mask) -> None:
    """What no window decides: a GPU that can't work, a cell that nobody saw, one that is
    not held.
    """
    decided = [
        (NUMBER[cause.code], *overruled)
        for cause in CATALOGUE
        if cause.overrule
        for overruled in cause.overrule(now, is_wasteful)
    ]
    for number, cells, sure, share in (*decided, (NOT_HELD, ~now.lanes.held, 0, 0.0)):
        told.cause[cells] = number
        told.confidence[cells] = sure
        told.low[cells] = told.high[cells] = share


@dataclass(frozen=True)
class _Look:
    """The lanes from the cell `first` on, cell by cell."""

    first: int
    alone: Features

    @cached_property
    def is_well(self) -> Mask:
        """Each cell by itself."""
        well = [detector for detector in DETECTORS if BY_CODE[detector.cause].verdict == WELL]
        found: Mask = np.logical_or.reduce([detector.find(self.alone).hits for detector in well])
        return found


@dataclass(frozen=True)
class _Windows:
    """Windows of one length over what a look looks at: of `running` work or of all."""

    look: _Look
    features: Features
    running: bool

    @cached_property
    def enough(self) -> Mask:
        """Where enough was observed to say something."""
        f = self.features
        with np.errstate(invalid="ignore"):
            known: Mask = (f["coverage"] >= COVERAGE) & f.lanes.held
            return known & (f["observed_s"] >= DATA_S) if self.running else known

    @cached_property
    def enough_of_one(self) -> Mask:
        """And one job alone held the GPU."""
        return self.enough & ~self.features.is_shared

    @cached_property
    def is_of_units(self) -> Mask:
        """Where the compute units do no less than the engines beside them."""
        leads = [detector.lead(self.features) for detector in DETECTORS if detector.lead]
        led: Mask = np.logical_or.reduce(leads)
        return ~led


def covered(lanes: Lanes, *, since: int = 0) -> Iterator[Covered]:
    """Each detector of the table that says something with the cells that it covers, in the table's
    order.
    """
    looks: dict[tuple[int, bool], _Look] = {}
    windows: dict[tuple[int, bool], _Windows] = {}
    warm = _warm(lanes)
    for detector in DETECTORS:
        parts = []
        running = detector.is_of_running_work
        for length in detector.lengths:
            # a window of the first wanted cell looks so far back, its stretch may begin before, and
            # the two before that may have opened it
            reach = max(length, HOUR)
            first = max(since - reach - _edge(reach) - MISSES, 0)
            if (first, running) not in looks:
                looks[first, running] = _Look(
                    first, Features(_from(warm if running else lanes, first), 1)
                )
            look = looks[first, running]
            if (length, running) not in windows:
                features = look.alone if length == 1 else Features(look.alone.lanes, length)
                windows[length, running] = _Windows(look, features, running)
            if (part := _covered_by(windows[length, running], detector)) is not None:
                parts.append(part)
        if parts:
            yield parts[0] if len(parts) == 1 else _joined(detector, parts, lanes.held.shape[1])


def _warm(lanes: Lanes) -> Lanes:
    """The lanes without what jobs did while they warmed up: a pause then is no pause of
    their work.
    """
    is_cold = lanes.held & (lanes.age < lanes.warm_up[:, None])
    if not is_cold.any():
        return lanes
    return replace(lanes, held=lanes.held & ~is_cold, figures=lanes.figures.without(is_cold))


def _edge(length: int) -> int:
    """Cells at each end of a stretch of such windows that may be left out."""
    return min(length // 2, EDGE)


def _from(lanes: Lanes, first: int) -> Lanes:
    """The lanes from that cell on."""
    if first == 0:
        return lanes
    return replace(
        lanes,
        start_ms=lanes.start_ms + first * CELL_MS,
        held=lanes.held[:, first:],
        held_ms=lanes.held_ms[:, first:],
        shared=lanes.shared[:, first:],
        age=lanes.age[:, first:],
        figures=lanes.figures.since(first),
        states={name: values[:, first:] for name, values in lanes.states.items()},
    )


def _covered_by(windows: _Windows, detector: Detector) -> Covered | None:
    """None: the rule holds of no lane."""
    f, look = windows.features, windows.look
    enough = windows.enough if detector.holds_of_shared else windows.enough_of_one
    if not detector.lead:
        enough = enough & windows.is_of_units
    found = detector.find(f)
    hits = found.hits & enough
    is_possible = np.zeros_like(hits) if found.possible is None else found.possible & enough
    # of few lanes a rule says anything: what follows looks at these alone
    rows = np.flatnonzero((hits | is_possible).any(axis=1))
    if not len(rows):
        return None
    hits, is_possible, enough, held = (
        hits[rows],
        is_possible[rows],
        enough[rows],
        f.lanes.held[rows],
    )
    if not hits.any():
        return _only_possible(_most(is_possible, enough, f.length), rows, look.first, detector)
    is_open = hits if detector.is_told else opened(hits) | hits & _whole(f, rows)
    part = _spread(replace(found, hits=is_open), rows, enough, windows, detector)
    if BY_CODE[detector.cause].verdict != WELL:
        # nobody is accused of warming up
        part = replace(part, cells=part.cells & held)
    if (edge := _edge(f.length)) and part.cells.any():
        shows = detector.shows(look.alone) if detector.shows else detector.find(look.alone).hits
        part = replace(
            part, cells=part.cells & ~at_the_edges(part.cells, (look.is_well & ~shows)[rows], edge)
        )
    if detector.begins:
        part = _begun(part, detector.begins(look.alone)[rows] & held)
    if detector.spared:
        part = _spared(part, detector.spared)
    return (
        replace(part, possible=_most(is_possible, enough, f.length)) if is_possible.any() else part
    )


def _only_possible(possible: Mask, rows: Ints, first: int, detector: Detector) -> Covered:
    """Of a rule that no window meets, where nothing rules it out."""
    nothing = np.zeros(possible.shape)
    return Covered(
        detector, rows, first, nothing > 0, nothing.astype(np.int8), nothing, nothing, possible
    )


def _whole(f: Features, rows: Ints) -> Mask | bool:
    """Of these lanes the windows that end with a job and look at all of it: no second one can
    follow.
    """
    is_over = f.lanes.is_over[rows]
    if not is_over.any():
        return False
    held = f.lanes.held[rows]
    is_last = held & ~np.pad(held, [(0, 0), (0, 1)])[:, 1:]
    whole: Mask = is_last & is_over[:, None] & (f.lanes.age[rows] < f.length)
    return whole


def _begun(part: Covered, begins: Mask) -> Covered:
    """With the cell before each stretch too, where it begins in it."""
    onset = np.zeros_like(part.cells)
    onset[:, :-1] = part.cells[:, 1:] & ~part.cells[:, :-1] & begins[:, :-1]
    confidence, low, high = (
        np.where(onset, np.roll(values, -1, axis=1), values)
        for values in (part.confidence, part.low, part.high)
    )
    return replace(part, cells=part.cells | onset, confidence=confidence, low=low, high=high)


def _spared(part: Covered, count: int) -> Covered:
    """With nothing to recover of the first `count` cells of each stretch."""
    first = _leading(part.cells, np.ones_like(part.cells), count)
    return replace(part, low=np.where(first, 0.0, part.low), high=np.where(first, 0.0, part.high))


def at_the_edges(cells: Mask, is_loose: Mask, edge: int) -> Mask:
    """Of each stretch of cells in a row the loose ones at its beginning and at its end, at most
    `edge` each.
    """
    return (
        _leading(cells, is_loose, edge) | _leading(cells[:, ::-1], is_loose[:, ::-1], edge)[:, ::-1]
    )


def _leading(cells: Mask, is_loose: Mask, edge: int) -> Mask:
    place = np.arange(cells.shape[1])
    begins = cells & ~np.pad(cells, [(0, 0), (1, 0)])[:, :-1]
    start = np.maximum.accumulate(np.where(begins, place, -1), axis=1)
    last_firm = np.maximum.accumulate(np.where(cells & ~is_loose, place, -1), axis=1)
    leading: Mask = cells & (last_firm < start) & (place - start < edge)
    return leading


def opened(hits: Mask) -> Mask:
    """Where a rule is open: from the second window in a row that meets it, until the third in a row
    that does not.
    """
    by_cell = np.ascontiguousarray(hits.T)  # a cell of all lanes lies together
    is_open = np.zeros_like(by_cell)
    before, missed = np.zeros(len(hits), dtype=bool), np.full(len(hits), MISSES)
    state = np.zeros(len(hits), dtype=bool)
    for cell, now in enumerate(by_cell):
        missed += 1
        missed[now] = 0
        begins = now & before
        state = (state | begins) & (missed < MISSES)
        # of the two that open it, the first is in it too
        if cell:
            is_open[cell - 1] |= begins
        is_open[cell] = state & now
        before = now
    return np.ascontiguousarray(is_open.T)


def _spread(
    found: Found, rows: Ints, enough: Mask, windows: _Windows, detector: Detector
) -> Covered:
    """From windows to cells: one is covered where the rule is open in at least half of the windows
    that look at it.

    So a cause begins where it began: windows that reach back before it are the fewer half there.
    Shares are means over the open windows, confidence is the surest. `found.hits` and `enough` are
    of the lanes `rows`.
    """
    is_open, length = found.hits, windows.features.length
    count = _ahead(is_open.astype(np.float64), length)
    cells = _most(is_open, enough, length)
    low, high = (
        np.divide(
            _ahead(np.where(is_open, share[rows], 0.0), length),
            count,
            out=np.zeros_like(count),
            where=cells,
        )
        for share in (found.low, found.high)
    )
    sure = np.where(is_open, found.confidence[rows], 0)
    width = 1
    while width < length:
        step = min(width, length - width)
        sure[:, :-step] = np.maximum(sure[:, :-step], sure[:, step:].copy())
        width += step
    confidence = np.where(cells, sure, 0).astype(np.int8)
    return Covered(
        detector, rows, windows.look.first, cells, confidence, low, high, np.zeros_like(cells)
    )


def _most(hits: Mask, enough: Mask, length: int) -> Mask:
    """Cells for which at least half of the windows that look at them, and know enough, are hits."""
    count = _ahead(hits.astype(np.float64), length)
    return (count > 0) & (2 * count >= _ahead(enough.astype(np.float64), length))


def _ahead(values: Floats, length: int) -> Floats:
    """Sum over this cell and the `length` - 1 after it: the windows that end there look at this
    cell.
    """
    total = np.cumsum(values[:, ::-1], axis=1)
    total[:, length:] -= total[:, :-length].copy()
    return total[:, ::-1]


def _joined(detector: Detector, parts: Sequence[Covered], count: int) -> Covered:
    """What several say, of all lanes that one of them says something of, and of all `count`
    cells.
    """
    rows = np.unique(np.concatenate([part.rows for part in parts]))
    wide = [_widened(part, rows, count) for part in parts]
    return Covered(
        detector,
        rows,
        0,
        np.logical_or.reduce([part.cells for part in wide]),
        np.maximum.reduce(
            [np.where(part.cells, part.confidence, 0).astype(np.int8) for part in wide]
        ),
        np.min([np.where(part.cells, part.low, 1.0) for part in wide], axis=0),
        np.max([np.where(part.cells, part.high, 0.0) for part in wide], axis=0),
        np.logical_or.reduce([part.possible for part in wide]),
    )


def _widened(part: Covered, rows: Ints, count: int) -> Covered:
    """The same of these lanes and all `count` cells: nothing covers the others."""

    def wide(values: NDArray[Any]) -> Any:
        found = np.zeros((len(rows), count), dtype=values.dtype)
        found[np.searchsorted(rows, part.rows), part.first :] = values
        return found

    return Covered(
        part.detector,
        rows,
        0,
        *map(wide, (part.cells, part.confidence, part.low, part.high, part.possible)),
    )
