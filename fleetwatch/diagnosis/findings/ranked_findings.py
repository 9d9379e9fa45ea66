"""Findings of jobs in a period: ranked, counted and summed as columns; those that are shown become
lines.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_columns import Lines
from fleetwatch.diagnosis.cause_totals import FIGURES, HIGH, WASTE, Caused, Saving
from fleetwatch.diagnosis.findings.step_savings import by_steps
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.edges import pairs
from fleetwatch.figures.packed_spans import Bools, Ints, numbered
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible

# in the order: what could be saved (low and high together, micro-dollars), at most (ms), the
# finding's id
Place = tuple[int, int, int]
# how an open finding stands of which an operator approved
EXEMPT = "exempt"


@dataclass(frozen=True, slots=True)
class Line:
    """A finding with what it took and could save in the period, by its step alone where that was
    measured; `status` is that of now: a snooze that is over is open again, and EXEMPT what is open
    and approved.
    """

    finding: Finding
    caused: Caused
    status: str
    gpus: int = 0  # affected ever; counted by with_jobs()
    # causes that may be behind it instead; looked up by with_jobs()
    alternatives: tuple[str, ...] = ()
    may_work: bool = True  # not all of the job's GPUs show the cause now; looked up by with_jobs()
    # the end of the last five minutes with its cause, where that was looked up (with_last_seen())
    cause_end_ms: int = 0
    # what more than the step could save, where that was measured; of line_of() alone
    at_most: Saving | None = None

    @property
    def job(self) -> Job:
        return self.finding.its_job

    @property
    def seen_until_ms(self) -> int:
        """The end of the last five minutes in which its job showed the cause, also where nothing of
        them could be saved: what a row and a page say of when it was seen last. No later than the
        end of the job.
        """
        last_ms = max(self.finding.last_ms, self.cause_end_ms)
        return min(last_ms, self.job.end_ms or last_ms)

    @property
    def by_step(self) -> Saving | None:
        """What its step alone could save; None where that was not measured."""
        return self.caused.saving if self.at_most else None


def status(finding: Finding, now: datetime) -> str:
    """Of now: a snooze ends by itself."""
    if (
        finding.status == Finding.Status.SNOOZED
        and finding.snoozed_until is not None
        and finding.snoozed_until <= now
    ):
        return Finding.Status.OPEN
    return finding.status


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings with time in the period, the largest possible saving in dollars first (the middle of
    its range), then the most time.
    """

    lines: Lines
    pk: Ints
    worth: Ints  # low and high together, whole micro-dollars
    high_ms: Ints
    last_ms: Ints  # end of its last cell
    group: Ints  # place in groups
    groups: Sequence[tuple[str, int | None]]  # status of now, id of whom it is given to

    def __len__(self) -> int:
        return len(self.pk)

    def __getitem__(self, wanted: slice) -> list[Line]:
        """Those lines, in order."""
        place = np.arange(len(self))[wanted]
        findings = Finding.objects.in_bulk(self.pk[place].tolist())
        lines = zip(
            self.pk[place].tolist(),
            self.lines.only(place).caused(),
            self.group[place].tolist(),
            strict=True,
        )
        # one that was deleted since they were counted is on no page
        return [
            Line(findings[pk], caused, self.groups[group][0])
            for pk, caused, group in lines
            if pk in findings
        ]

    def of_status(self, *statuses: str) -> "Findings":
        """Those that stand so now."""
        return self._of_groups([status in statuses for status, _ in self.groups])

    def assigned(self, assignee_id: int | None) -> "Findings":
        """Those given to that user; None = to nobody."""
        return self._of_groups([owner_id == assignee_id for _, owner_id in self.groups])

    def keys(self) -> list[tuple[int, str]]:
        """Of each its job and cause."""
        return list(zip(self.lines.job.tolist(), self.causes().tolist(), strict=True))

    def standing(self, status: str, keys: Collection[tuple[int, str]]) -> "Findings":
        """The same, of which those that are open and of these jobs and causes stand so."""
        if not keys:
            return self
        is_open = np.array([each == Finding.Status.OPEN for each, _ in self.groups], dtype=bool)
        is_meant = np.array([key in keys for key in self.keys()], dtype=bool)
        is_meant &= is_open[self.group]
        return replace(
            self,
            group=np.where(is_meant, len(self.groups) + self.group, self.group),
            groups=[*self.groups, *((status, owner_id) for _, owner_id in self.groups)],
        )

    def of_jobs(self, **facts: str) -> "Findings":
        """Those of jobs with these facts: kind, cluster; by name of those that the reader sees."""
        jobs = Job.objects.filter(pk__in=np.unique(self.lines.job).tolist(), **facts)
        return self.only((visible(jobs) if "name" in facts else jobs).values_list("pk", flat=True))

    def only(self, job_ids: Iterable[int]) -> "Findings":
        """Those of these jobs."""
        return self._where(np.isin(self.lines.job, list(job_ids)))

    def wasted_in(self, state: str) -> "Findings":
        """Those with wasted time in that state of the ledger."""
        wasted = [
            self.lines.sums(FIGURES.index(name)) for name, (of, _) in WASTE.items() if of == state
        ]
        return self._where(np.add.reduce(wasted) > 0)

    def counts(self) -> Counter[str]:
        """How many by status."""
        sizes = np.bincount(self.group, minlength=len(self.groups)).tolist()
        counts: Counter[str] = Counter()
        for (status, _), size in zip(self.groups, sizes, strict=True):
            counts[status] += size
        return counts

    def caused(self) -> dict[str, Caused]:
        """By status all that those took that stand so, as one."""
        names = sorted({status for status, _ in self.groups})
        of_group = np.array([names.index(status) for status, _ in self.groups], dtype=np.int64)
        numbers, of_finding = numbered(of_group[self.group])
        if not len(numbers):
            return {}
        none = np.zeros_like(numbers)
        together = replace(self.lines, job=none, cause=none, line=of_finding[self.lines.line])
        several = zip(numbers.tolist(), together.caused(), strict=True)
        return {names[number]: caused for number, caused in several}

    def place(self, position: int) -> Place:
        """Of the finding at that position in the order."""
        return int(self.worth[position]), int(self.high_ms[position]), int(self.pk[position])

    def up_to(self, place: Place) -> int:
        """How many come up to that place, the one that stands there included."""

        def order(place: Place) -> Place:
            worth, high_ms, pk = place
            return -worth, -high_ms, pk

        return bisect_right(
            range(len(self)), order(place), key=lambda position: order(self.place(position))
        )

    def _of_groups(self, chosen: list[bool]) -> "Findings":
        return self._where(np.array(chosen, dtype=bool)[self.group])

    def causes(self) -> NDArray[np.str_]:
        """Of each the code of its cause."""
        return np.array(self.lines.spans.labels or [""])[self.lines.cause]

    def _where(self, chosen: Bools) -> "Findings":
        return self.at(np.flatnonzero(chosen))

    def at(self, place: Ints) -> "Findings":
        """Those at these places, in that order."""
        columns = {name: getattr(self, name)[place] for name in _COLUMNS}
        return replace(self, lines=self.lines.only(place), **columns)


_COLUMNS = ("pk", "worth", "high_ms", "last_ms", "group")

# as findings.sql packs it
RECORD = np.dtype(
    [
        ("id", ">i8"),
        ("job", ">i8"),
        ("cause", ">i2"),
        ("last", ">i8"),
        ("step_saved", ">i8"),
        ("step_of", ">i8"),
    ]
)


_Row = tuple[str, int | None, bytes]


def in_order(lines: Lines, rows: Sequence[_Row]) -> Findings:
    """The lines (of a job and cause) that are findings, of rows of findings.sql, and could save
    anything: those whose step was measured as much as that alone.
    """
    pk, job, cause, last_ms, saved_ms, of_ms, group = _unpacked(rows)
    matched = _matched(lines, job, cause)
    place = np.flatnonzero((matched >= 0) & (lines.sums(HIGH) > 0))
    finding = matched[place]
    own = by_steps(lines.only(place), saved_ms[finding], of_ms[finding])
    high_ms = own.sums(HIGH)
    worth = own.worth()
    order = np.lexsort((pk[finding], -high_ms, -worth))
    finding = finding[order]
    return Findings(
        own.only(order),
        pk[finding],
        worth[order],
        high_ms[order],
        last_ms[finding],
        group[finding],
        [row[:2] for row in rows],
    )


def _matched(lines: Lines, job: Ints, cause: Ints) -> Ints:
    """Of each line the place of its finding among these, which are of different jobs or causes; -1
    = none.
    """
    count, of_line, of_finding = pairs((lines.job, lines.cause), (job, cause))
    finding = np.full(count, -1)
    finding[of_finding] = np.arange(len(job))
    return finding[of_line]


def _unpacked(rows: Sequence[_Row]) -> list[Ints]:
    """Of each finding what RECORD has of it, and its row."""
    packed: NDArray[np.void] = np.frombuffer(b"".join(row[2] for row in rows), dtype=RECORD)
    columns = [packed[name].astype(np.int64) for name in RECORD.names or ()]
    lengths = [len(row[2]) // RECORD.itemsize for row in rows]
    return [*columns, np.repeat(np.arange(len(rows)), lengths)]
