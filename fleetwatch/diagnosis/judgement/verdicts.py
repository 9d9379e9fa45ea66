"""One primary cause per GPU, job and five-minute cell: the first rule of the table that holds. Pure
numpy.

A rule opens after two windows in a row and closes after three without it; while open it covers
all the cells of its windows. Where windows of several lengths, or several rules, cover a cell,
the rule that stands first in the table is its cause, the others are "also possible".
At both ends of such a stretch cells are left out that are well by themselves: a window that is
for a third in the cause may hold its rule, so the stretch reaches over where it began.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause import WELL
from fleetwatch.diagnosis.causes import CATALOGUE, DETECTORS, OF_DETECTORS, UNDETERMINED
from fleetwatch.diagnosis.judgement import lane_parts
from fleetwatch.diagnosis.judgement.array_tools import extreme, windowed
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.diagnosis.judgement.rules import COVERAGE, Detector, Judged, Levels
from fleetwatch.ledger.judgement.cell_states import CELLS_PER_HOUR
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask

DATA_S = 600.0  # observed seconds that a rule about running work needs
MISSES = 3  # windows in a row without it that close a rule
EDGE = CELLS_PER_HOUR  # at each end of a stretch that may be left out, at most half a window
# of the held time, by the ledger: what wastes more is neither well nor without telemetry
WASTEFUL = 0.15
ROUNDING = 1e-9

# A cause's number is its rank.
CAUSES: tuple[str, ...] = tuple(cause.code for cause in CATALOGUE if cause.is_of_cells)
NUMBER = {cause: number for number, cause in enumerate(CAUSES)}
NOT_HELD = -1
Numbers = NDArray[np.int8]
NO_WRITER = -1
# Of what windows of several lengths say of a cell.
_BEST = (("confidence", np.maximum), ("low", np.minimum), ("high", np.maximum))
ALONE = (NOT_HELD, *(NUMBER[cause.code] for cause in CATALOGUE if cause.is_alone))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Per lane and cell the cause's number in CAUSES (NOT_HELD where the job does not hold the
    GPU), how sure it is, the bits (1 << number) of other causes that are possible, and the
    recoverable share, 0 to 1, from low to high.
    """

    cause: Numbers
    confidence: Levels
    also: NDArray[np.int64]
    low: Floats
    high: Floats

    @classmethod
    def all(cls, cause: int, shape: tuple[int, ...]) -> "Verdicts":
        """The one cause everywhere, not sure at all."""
        return cls(
            cause=np.full(shape, cause, dtype=np.int8),
            confidence=np.zeros(shape, dtype=np.int8),
            also=np.zeros(shape, dtype=np.int64),
            low=np.zeros(shape),
            high=np.zeros(shape),
        )


@dataclass(frozen=True, slots=True)
class Covered:
    """Where windows of one length cover a cell by a detector, with the most that they say;
    `possible`: where nothing read rules it out.

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
    verdicts = Verdicts.all(NOT_HELD, lanes.held.shape)
    for part in lane_parts.parts(lanes, since=since):
        judged = _judged(part.lanes, max(since - int(part.columns[:, 0].max()), 0))
        for field in fields(Verdicts):
            part.put(getattr(verdicts, field.name), getattr(judged, field.name))
    return verdicts


def _judged(lanes: Lanes, since: int) -> Verdicts:
    verdicts = Verdicts.all(NUMBER[UNDETERMINED], lanes.held.shape)
    now = Features(lanes, 1)
    is_wasteful = now["wasted_of_cell"] > WASTEFUL + ROUNDING
    writer = np.full(lanes.held.shape, NO_WRITER, dtype=np.int8)
    # the last written wins: from the bottom of the table to its top
    for part in reversed(list(covered(lanes, since=since))):
        _write(verdicts, writer, part, is_wasteful)
    _overrule(verdicts, now, is_wasteful)
    cause = verdicts.cause
    also = verdicts.also
    is_told = cause >= 0
    also[is_told] &= ~(np.int64(1) << cause[is_told].astype(np.int64))
    # what was read of these leaves nothing else: without any process there is no session, service
    # or small model
    also[np.isin(cause, ALONE)] = 0
    return verdicts


def _write(verdicts: Verdicts, writer: Numbers, part: Covered, is_wasteful: Mask) -> None:
    """Over what others wrote; what windows of another length of the detector said of a cell
    counts too. `writer` is the place of the detector that wrote each cell.
    """
    number = NUMBER[OF_DETECTORS[part.detector].code]
    cells = part.cells
    if _is_well(part.detector):
        cells = cells & ~is_wasteful[part.rows, part.first :]
    else:
        verdicts.also[part.at(cells | part.possible)] |= 1 << number
    at = part.at(cells)
    verdicts.cause[at] = number
    place = DETECTORS.index(part.detector)
    is_again = writer[at] == place
    writer[at] = place
    for name, best in _BEST:
        values = getattr(part, name)[cells]
        written = getattr(verdicts, name)
        written[at] = np.where(is_again, best(written[at], values), values)


def _is_well(detector: Detector) -> bool:
    return OF_DETECTORS[detector].verdict == WELL


def _overrule(verdicts: Verdicts, now: Features, is_wasteful: Mask) -> None:
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
        verdicts.cause[cells] = number
        verdicts.confidence[cells] = sure
        verdicts.low[cells] = verdicts.high[cells] = share


@dataclass(frozen=True)
class _Look:
    """The lanes from the cell `first` on, cell by cell."""

    first: int
    alone: Features

    @cached_property
    def is_well(self) -> Mask:
        """Each cell by itself."""
        hits = [detector.find(self.alone).hits for detector in DETECTORS if _is_well(detector)]
        is_well: Mask = np.logical_or.reduce(hits)
        return is_well


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
        enough: Mask = (f["coverage"] >= COVERAGE) & f.lanes.held
        return enough & (f["observed_s"] >= DATA_S) if self.running else enough

    @cached_property
    def enough_of_one(self) -> Mask:
        """And one job alone held the GPU."""
        return self.enough & ~self.features.is_shared

    @cached_property
    def is_of_units(self) -> Mask:
        """Where the compute units do no less than the engines beside them."""
        leads = [detector.lead(self.features) for detector in DETECTORS if detector.lead]
        is_led: Mask = np.logical_or.reduce(leads)
        return ~is_led

    def judged_by(self, detector: Detector) -> Mask:
        """Where the detector may say something."""
        enough = self.enough if detector.holds_of_shared else self.enough_of_one
        return enough if detector.lead else enough & self.is_of_units


def covered(lanes: Lanes, *, since: int = 0) -> Iterator[Covered]:
    """What each detector of the table covers, by its windows of each length, in the table's
    order.
    """
    of = {False: lanes, True: lanes.warm()}

    @cache
    def look(first: int, running: bool) -> _Look:
        return _Look(first, Features(of[running].since(first), 1))

    @cache
    def windows(length: int, running: bool) -> _Windows:
        here = look(_first(since, length), running)
        features = here.alone if length == 1 else Features(here.alone.lanes, length)
        return _Windows(here, features, running)

    for detector in DETECTORS:
        for length in detector.lengths:
            part = _covered_by(windows(length, detector.is_of_running_work), detector)
            if part is not None:
                yield part


def _first(since: int, length: int) -> int:
    """The first cell that such windows need: one of the first wanted cell looks so far back, its
    stretch may begin before, and the two before that may have opened it.
    """
    reach = max(length, CELLS_PER_HOUR)
    return max(since - reach - _edge(reach) - MISSES, 0)


def _edge(length: int) -> int:
    """Cells at each end of a stretch of such windows that may be left out."""
    return min(length // 2, EDGE)


def _covered_by(windows: _Windows, detector: Detector) -> Covered | None:
    """None: the rule holds of no lane."""
    f = windows.features
    enough = windows.judged_by(detector)
    rule = detector.find(f)
    hits = rule.hits & enough
    possible = rule.possible & enough
    # of few lanes a rule says anything: what follows looks at these alone
    rows = np.flatnonzero((hits | possible).any(axis=1))
    if not len(rows):
        return None
    hits = hits[rows]
    enough = enough[rows]
    is_open = hits if detector.is_told else opened(hits) | hits & _whole(f, rows)
    part = Covered(
        detector,
        rows,
        windows.look.first,
        *_spread(rule, rows, is_open, enough, f.length),
        possible=_most(possible[rows], enough, f.length),
    )
    _trim(part, windows)
    return part


def _trim(part: Covered, windows: _Windows) -> None:
    """Makes it what the detector has it be: without a warm-up and the edges, with the cell in which
    it begins, and nothing to recover of those that are spared.
    """
    detector = part.detector
    cells = part.cells
    alone = windows.look.alone
    held = alone.lanes.held[part.rows]
    if not _is_well(detector):
        # nobody is accused of warming up
        cells &= held
    edge = _edge(windows.features.length)
    if edge and cells.any():
        is_loose = windows.look.is_well & ~detector.shown(alone)
        cells &= ~at_the_edges(cells, is_loose[part.rows], edge)
    if detector.begins:
        _begin(part, detector.begins(alone)[part.rows] & held)
    if detector.spared:
        is_spared = _leading(cells, np.ones_like(cells), detector.spared)
        part.low[is_spared] = part.high[is_spared] = 0.0


def _whole(f: Features, rows: Ints) -> Mask:
    """Of these lanes the windows that end with a job and look at all of it: no second one can
    follow.
    """
    held = f.lanes.held[rows]
    is_last = held & ~np.pad(held, [(0, 0), (0, 1)])[:, 1:]
    whole: Mask = is_last & f.lanes.is_over[rows, None] & (f.lanes.age[rows] < f.length)
    return whole


def _begin(part: Covered, begins: Mask) -> None:
    """Adds the cell before each stretch, where it begins in it."""
    row, cell = np.nonzero(part.cells[:, 1:] & ~part.cells[:, :-1] & begins[:, :-1])
    for values in (part.cells, part.confidence, part.low, part.high):
        values[row, cell] = values[row, cell + 1]


def at_the_edges(cells: Mask, is_loose: Mask, edge: int) -> Mask:
    """Of each stretch of cells in a row the loose ones at its beginning and at its end, at most
    `edge` each.
    """
    trailing = _leading(cells[:, ::-1], is_loose[:, ::-1], edge)[:, ::-1]
    return _leading(cells, is_loose, edge) | trailing


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
    before = np.zeros(len(hits), dtype=bool)
    missed = np.full(len(hits), MISSES)
    state = before
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
    rule: Judged, rows: Ints, is_open: Mask, enough: Mask, length: int
) -> tuple[Mask, Levels, Floats, Floats]:
    """From windows to cells: one is covered where the rule is open in at least half of the windows
    that look at it; how surely, and the recoverable share from low to high.

    So a cause begins where it began: windows that reach back before it are the fewer half there.
    Shares are means over the open windows, confidence is the surest. `is_open` and `enough` are of
    these rows of the rule.
    """
    count = _ahead(is_open.astype(np.float64), length)
    cells = _most(is_open, enough, length)
    low, high = (
        np.divide(
            _ahead(np.where(is_open, share[rows], 0.0), length),
            count,
            out=np.zeros_like(count),
            where=cells,
        )
        for share in (rule.low, rule.high)
    )
    sure = np.where(is_open, rule.confidence[rows], 0)
    surest = extreme(sure[:, ::-1], length, np.maximum)[:, ::-1]
    return cells, np.where(cells, surest, 0).astype(np.int8), low, high


def _most(hits: Mask, enough: Mask, length: int) -> Mask:
    """Cells for which at least half of the windows that look at them, and know enough, are hits."""
    count = _ahead(hits.astype(np.float64), length)
    return (count > 0) & (2 * count >= _ahead(enough.astype(np.float64), length))


def _ahead(values: Floats, length: int) -> Floats:
    """Sum over this cell and the `length` - 1 after it: the windows that end there look at this
    cell.
    """
    return windowed(values[:, ::-1], length)[:, ::-1]
