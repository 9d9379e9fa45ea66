"""How much jobs work in each five minutes, by the ledger's pieces: what conditions of a share of
their time measure.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from fleetwatch.alerts.breach import Settings, Watch
from fleetwatch.alerts.episodes import Level, Measured, Span
from fleetwatch.alerts.measuring.job_lanes import UNKNOWN, Ints, Mask
from fleetwatch.alerts.measuring.judged_jobs import (
    begun_ms,
    ends,
    judged_jobs,
    of_judged_kind,
    settled_ms,
)
from fleetwatch.figures.packed_spans import numbered
from fleetwatch.figures.packed_spans import sums as sums_at
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement.cell_states import CELL_MS, Table
from fleetwatch.ledger.judgement.observations import Floats
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, ceil_hour_ms, floor_hour_ms

# read at once: 0.3 million pieces, some 30 MB
NODES_AT_ONCE = 125
HOURS_AT_ONCE = 24
MOSTLY = 0.5
CELLS = HOUR_MS // CELL_MS  # of an hour

# what is counted, as JobCells has it: the ledger's labels that it is made of
_LABELS = (
    ("useful",),
    ("underused_potential",),
    ("stalled_probable", "stalled_potential"),
    ("idle_certain", "idle_probable", "starting"),
    ("unobserved", "unavailable"),
)


@dataclass(frozen=True, slots=True)
class JobCells:
    """What jobs did, a row for each job and five minutes (from `start_ms` on), by job and start:
    GPU-milliseconds that were useful, underused, stalled, idle or starting (`resting`), and that
    nobody saw.
    """

    job_id: Ints
    start_ms: Ints
    useful: Ints
    underused: Ints
    stalled: Ints
    resting: Ints
    unseen: Ints

    @property
    def seen(self) -> Ints:
        """The time in which the GPUs worked or were stalled."""
        return self.useful + self.underused + self.stalled

    @property
    def rests(self) -> Mask:
        """Where most of what was seen was idle or starting: idle time has rules of its own."""
        return self.resting > MOSTLY * (self.seen + self.resting)

    def where(self, keep: Mask) -> "JobCells":
        """These rows alone."""
        return JobCells(*(getattr(self, field.name)[keep] for field in fields(self)))

    def within(self, job_id: Ints, start_ms: Ints, end_ms: Ints) -> Mask:
        """Which rows are of one of these jobs and overlap its [start_ms, end_ms)."""
        key = _key(self.job_id, self.start_ms // CELL_MS)
        low = np.searchsorted(key, _key(job_id, start_ms // CELL_MS))
        high = np.searchsorted(key, _key(job_id, -(-end_ms // CELL_MS)))
        steps = np.zeros(len(key) + 1, dtype=np.int64)
        np.add.at(steps, low, 1)
        np.add.at(steps, np.maximum(low, high), -1)
        return steps[:-1].cumsum() > 0

    def trailing(self, count: int) -> "JobCells":
        """Of each row the sums of its job's last so many five minutes; of fewer than half of them
        nothing (0).
        """
        key = _key(self.job_id, self.start_ms // CELL_MS)
        first = np.searchsorted(key, key - (count - 1))
        here = np.arange(len(key))
        is_enough = 2 * (here - first + 1) >= count
        sums = []
        for field in fields(self)[2:]:
            so_far = np.append(0, getattr(self, field.name).cumsum())
            sums.append((so_far[here + 1] - so_far[first]) * is_enough)
        return JobCells(self.job_id, self.start_ms, *sums)


# which rows make their job worth a look
Suspects = Callable[[JobCells], Mask]

_CELL_BITS = 24  # five minutes since 1970, until 2129
_CELL_MASK = (1 << _CELL_BITS) - 1


def _key(job_id: Ints, cell: Ints) -> Ints:
    key: Ints = (job_id << _CELL_BITS) + cell
    return key


def job_cells(watch: Watch, suspects: Suspects, *, lead_ms: int = 0) -> JobCells:
    """What judged jobs did over the period, and `lead_ms` before it, of those of which `suspects`
    gives a row and those that fire already; of the newest minutes, of which a part may not be there
    yet, nothing.
    """
    start_ms = (watch.start_ms - lead_ms) // CELL_MS * CELL_MS
    end_ms = settled_ms(watch)
    parts = list(_portions(start_ms, end_ms))
    firing = Job.objects.filter(key__in=watch.firing).values_list("pk", flat=True)
    wanted = np.unique(
        np.concatenate([list(firing), *(part.job_id[suspects(part)] for part in parts)])
    ).astype(np.int64)
    whole = _together([part.where(np.isin(part.job_id, wanted)) for part in parts])
    return whole.where((whole.start_ms >= start_ms) & (whole.start_ms < end_ms))


def _portions(start_ms: int, end_ms: int) -> Iterator[JobCells]:
    """What jobs of the kind that is judged did on some nodes for some hours, portion by portion."""
    nodes = Node.objects.filter(last_ms__gt=start_ms).order_by("pk")
    every = list(nodes.values_list("pk", flat=True))
    step_ms = HOURS_AT_ONCE * HOUR_MS
    for place in range(0, len(every), NODES_AT_ONCE):
        for first_ms in range(floor_hour_ms(start_ms), end_ms, step_ms):
            last_ms = min(first_ms + step_ms, ceil_hour_ms(end_ms))
            node_ids = every[place : place + NODES_AT_ONCE]
            tables = list(hour_cells.by_hour(node_ids, first_ms, last_ms))
            jobs = [np.zeros(0, dtype=np.int64), *(table["job_id"] for table in tables)]
            judged = of_judged_kind(numbered(np.concatenate(jobs))[0])
            yield _joined([_of_hour(table, judged) for table in tables])


def _of_hour(table: Table, judged: Ints) -> JobCells:
    """By job and five minutes, which are counted and not sorted: an hour has few of both."""
    if not len(judged) or not len(table["job_id"]):
        return _joined([])
    job, keep = _among(table["job_id"], judged)
    first_ms = floor_hour_ms(int(table["start_ms"][0]))
    place = _places(job, table["start_ms"][keep] - first_ms)
    there = np.flatnonzero(np.bincount(place))
    sums = (sums_at(place, _sum_of(table, each)[keep], len(judged) * CELLS) for each in _LABELS)
    start_ms = first_ms + there % CELLS * CELL_MS
    return JobCells(judged[there // CELLS], start_ms, *(each[there] for each in sums))


def _among(job_id: Ints, judged: Ints) -> tuple[Ints, Ints]:
    """The places among the judged jobs, and the rows that have one."""
    place = np.minimum(np.searchsorted(judged, job_id), len(judged) - 1)
    keep = np.flatnonzero(judged[place] == job_id)
    return place[keep], keep


def _places(job: Ints, since_ms: Ints) -> Ints:
    """A number for each job and five minutes of an hour."""
    places: Ints = job * CELLS + since_ms // CELL_MS
    return places


def _sum_of(table: Table, labels: Sequence[str]) -> Ints:
    first, *others = (table[label] for label in labels)
    return sum(others, start=first)


def _joined(parts: Sequence[JobCells]) -> JobCells:
    """The rows of one after the other."""
    nothing = np.zeros(0, dtype=np.int64)
    return JobCells(
        *(
            np.concatenate([nothing, *(getattr(part, field.name) for part in parts)])
            for field in fields(JobCells)
        )
    )


def _together(portions: Sequence[JobCells]) -> JobCells:
    """A job's GPUs on nodes that were read apart are one."""
    whole = _joined(portions)
    sums = [getattr(whole, field.name) for field in fields(JobCells)[2:]]
    return _summed(_key(whole.job_id, whole.start_ms // CELL_MS), sums)


def _summed(key: Ints, columns: Sequence[Ints]) -> JobCells:
    """By job and five minutes, both in the key, the sums of the columns."""
    keys, place = np.unique(key, return_inverse=True)
    sums = (sums_at(place, column, len(keys)) for column in columns)
    return JobCells(keys >> _CELL_BITS, (keys & _CELL_MASK) * CELL_MS, *sums)


@dataclass(frozen=True, slots=True)
class Share:
    """Which share of GPU time something took, at least and at most: what nobody saw may have been
    it, or not. NaN of no time.
    """

    least: Floats
    most: Floats

    @classmethod
    def of(cls, part: Ints, whole: Ints, unseen: Ints) -> "Share":
        """`whole` is what was seen."""
        total = np.where(whole + unseen > 0, whole + unseen, np.nan)
        return cls(part / total, (part + unseen) / total)

    def below(self, settings: Settings) -> Ints:
        """Levels of a rule that is breached below its threshold (per cent)."""
        breach, clear = _bounds(settings)
        return self._levels(self.most < breach, self.least >= clear, self.least >= breach)

    def reached(self, settings: Settings) -> Ints:
        """Levels of a rule that is breached from its threshold (per cent) on."""
        breach, clear = _bounds(settings)
        return self._levels(self.least >= breach, self.most < clear, self.most < breach)

    def _levels(self, breach: Mask, clear: Mask, between: Mask) -> Ints:
        return np.select(
            [breach, clear, between], [Level.BREACH, Level.CLEAR, Level.BETWEEN], UNKNOWN
        )


def _bounds(settings: Settings) -> tuple[float, float]:
    return settings.threshold / 100, settings.clear_at / 100


def measured(cells: JobCells, levels: Ints, watch: Watch, *, cleared: str) -> Measured:
    """The spans of each job that breaches somewhere, or fires already. Where a GPU spins, its job
    is neither in breach nor clear: other rules tell it.
    """
    jobs = judged_jobs(np.unique(cells.job_id[levels == Level.BREACH]).tolist(), watch)
    keep = np.isin(cells.job_id, list(jobs)) & (cells.start_ms + CELL_MS > watch.start_ms)
    ours = cells.where(keep)
    last_ms = dict(zip(ours.job_id.tolist(), (ours.start_ms + CELL_MS).tolist(), strict=True))
    return Measured(
        spans=_spans(ours, _spared(ours, levels[keep]), jobs),
        ends=ends(last_ms, jobs, watch, judged_ms=settled_ms(watch)),
        begun_ms=begun_ms(jobs),
        cleared=cleared,
    )


def _spared(cells: JobCells, levels: Ints) -> Ints:
    """The levels, BETWEEN where one of the job's GPUs spins."""
    runs = Run.objects.filter(
        job_id__in=np.unique(cells.job_id).tolist(),
        condition="spinning",
        end_ms__gt=int(cells.start_ms.min(initial=0)),
    ).values_list("job_id", "start_ms", "end_ms")
    spinning = np.array(list(runs), dtype=np.int64).reshape(-1, 3).T
    return np.where(cells.within(*spinning), Level.BETWEEN, levels)


def _spans(cells: JobCells, levels: Ints, jobs: dict[int, Job]) -> dict[str, list[Span]]:
    """By job its spans, none beyond its end; neighbours of one level are one."""
    first = _firsts(cells, levels)
    last = np.append(first, len(levels))[1:] - 1
    columns = (cells.job_id[first], cells.start_ms[first], cells.start_ms[last], levels[first])
    spans: dict[str, list[Span]] = defaultdict(list)
    for job_id, start_ms, last_ms, level in zip(*map(np.ndarray.tolist, columns), strict=True):
        if level != UNKNOWN:
            end_ms = _end_of(last_ms, jobs[job_id])
            spans[jobs[job_id].key].append(Span(start_ms, end_ms, Level(level)))
    return spans


def _end_of(last_ms: int, job: Job) -> int:
    """Where the five minutes end, or the job within them."""
    end_ms = last_ms + CELL_MS
    return end_ms if job.end_ms is None else min(end_ms, job.end_ms)


def _firsts(cells: JobCells, levels: Ints) -> Ints:
    """The rows that do not go on from the one before."""
    is_next = np.diff(cells.start_ms) == CELL_MS
    goes_on = is_next & (np.diff(cells.job_id) == 0) & (np.diff(levels) == 0)
    return np.flatnonzero(np.append(True, ~goes_on)[: len(levels)])
