"""Findings of jobs by pattern: one cause in jobs of one owner and name, as one thing to act on.

What happens again and again is one line, whatever number of jobs it happened in.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause_totals import Caused, Saving, total
from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.findings.last_hour import Lately, caused_lately, last_hour
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT, Findings, Line, Place
from fleetwatch.diagnosis.findings.recurrence import Projection, projections, recurring
from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures.others_names import job_name_shown
from fleetwatch.figures.packed_spans import Bools, Ints, numbered, sums
from fleetwatch.figures.totals import ZERO
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

FRESH_MS = 30 * 60_000  # seen so lately, in a job that has not ended: it goes on
MICRO = 1_000_000  # micro-dollars of a dollar
SLIGHT = 0.01  # of an hour: so little wasted is a cent or two, by jitter between two steps
HOURLY = timedelta(days=2)  # periods up to so long are drawn by the hour

NOW = "now"
HABIT = "habit"
ONCE = "once"
WHEN = (NOW, HABIT, ONCE)
# how findings stand, those first of which most is left to decide
LEAST_DECIDED = ("open", "snoozed", "accepted", EXEMPT, "fixed", "dismissed")

_SERIES = read_statement("diagnosis/sql/series_of_jobs.sql")
_WASTED = read_statement("diagnosis/sql/wasted_by_step.sql")


@dataclass(frozen=True, slots=True)
class Pattern:
    """What findings of one cause took together in a period, in jobs of one owner and name.

    `line` is that of the latest run: of those that go on, where one does, the one that was seen
    last; `ids` are theirs in that order, `statuses` how many of them stand how now; `runs` how
    many jobs it happened in; `when` one of WHEN: it goes on now, it comes back (several runs, here
    or in the last two weeks, or a job that has not ended), or it was one job that is over.
    `per_month` is what it could save in the next 30 days, whatever the period, at the rate of
    `recent_runs` (findings/recurrence.py): of what waits for a decision without the accepted ones
    among them; None of what does not recur.
    """

    line: Line
    caused: Caused
    runs: int
    last_ms: int
    when: str
    job_name: str
    per_month: Saving | None
    recent_runs: int = 0
    recent_accepted: int = 0
    ids: tuple[int, ...] = ()
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def undecided(self) -> int:
        """How many of its findings wait for a decision."""
        return self.statuses["open"] + self.statuses["snoozed"]

    @property
    def status(self) -> str:
        """How it stands as a whole: as those of its findings of which most is left to decide."""
        return next((each for each in LEAST_DECIDED if self.statuses[each]), self.line.status)

    @property
    def decided_parts(self) -> list[tuple[str, int]]:
        """Where its findings stand unlike: those that are not open, and how many of them."""
        if len(self.statuses) < 2:
            return []
        return [(each, self.statuses[each]) for each in LEAST_DECIDED[1:] if self.statuses[each]]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns of findings, what could save most first."""

    findings: Findings
    at: Ints  # of each finding its pattern
    goes_on: Bools  # of each finding
    worth: Ints  # of each pattern, as Findings.worth
    first_pk: Ints  # its lowest finding
    when: Ints  # place in WHEN
    interval: Interval
    now: datetime

    def __len__(self) -> int:
        return len(self.worth)

    def __getitem__(self, wanted: slice) -> list[Pattern]:
        """Those patterns, in order."""
        places = np.arange(len(self))[wanted]
        latest = [self._newest_first(place)[0] for place in places.tolist()]
        lines = self._lines(latest)
        ahead = projections(list(map(_key, lines.values())), now=self.now)
        several = zip(places.tolist(), latest, self._caused(places), strict=True)
        # one that was deleted since they were counted is on no page
        return [
            self._pattern(place, lines[pk], caused, ahead)
            for place, pk, caused in several
            if pk in lines
        ]

    def _lines(self, pks: Collection[int]) -> dict[int, Line]:
        """Those findings with their jobs, by id."""
        shown = self.findings.at(np.flatnonzero(np.isin(self.findings.pk, list(pks))))[:]
        lines = selectors.with_jobs(shown, before=self.interval.end)
        return {line.finding.pk: line for line in lines}

    def of(self, when: str) -> "Patterns":
        """Those of that kind."""
        kept = np.flatnonzero((self.when == WHEN.index(when))[self.at])
        numbers, at = numbered(self.at[kept])
        return replace(
            self,
            findings=self.findings.at(kept),
            at=at,
            goes_on=self.goes_on[kept],
            worth=self.worth[numbers],
            first_pk=self.first_pk[numbers],
            when=self.when[numbers],
        )

    def counts(self) -> dict[str, int]:
        """How many of each kind."""
        sizes = np.bincount(self.when, minlength=len(WHEN)).tolist()
        return dict(zip(WHEN, sizes, strict=True))

    def place(self, position: int) -> Place:
        """Of the pattern at that position in the order."""
        return int(self.worth[position]), 0, int(self.first_pk[position])

    def up_to(self, place: Place) -> int:
        """How many come up to that place, the one that stands there included."""
        worth, _, pk = place
        return bisect_right(
            range(len(self)),
            (-worth, pk),
            key=lambda position: (-int(self.worth[position]), int(self.first_pk[position])),
        )

    def finding_ids(self, place: int, *, standing: Collection[str] = ()) -> list[int]:
        """The ids of the pattern's findings, what could save most first: of those that stand so,
        and of all where none does.
        """
        own = self.findings.at(np.flatnonzero(self.at == place))
        meant = own.of_status(*standing)
        ids: list[int] = (meant if len(meant) else own).pk.tolist()
        return ids

    def holding(self, pk: int) -> int | None:
        """The place of the pattern that has this finding; None where none has."""
        places = self.at[self.findings.pk == pk]
        return int(places[0]) if len(places) else None

    def _caused(self, places: Ints) -> list[Caused]:
        """All that the findings of each of these took, as one."""
        lines = self.findings.lines
        together = replace(
            lines,
            job=np.zeros(len(self), dtype=np.int64),
            cause=lines.cause[np.unique(self.at, return_index=True)[1]],
            line=self.at[lines.line],
        )
        return together.only(places).caused()

    def _newest_first(self, place: int) -> list[int]:
        """The ids of the pattern's findings: those that go on, then those that were seen last."""
        own = np.flatnonzero(self.at == place)
        pk = self.findings.pk[own]
        order = np.lexsort((-pk, -self.findings.last_ms[own], ~self.goes_on[own]))
        ids: list[int] = pk[order].tolist()
        return ids

    def _pattern(
        self,
        place: int,
        line: Line,
        caused: Caused,
        projected: Mapping[Key, Projection],
    ) -> Pattern:
        ahead = projected.get(_key(line))
        own = self.findings.at(np.flatnonzero(self.at == place))
        when = WHEN[int(self.when[place])]
        statuses = +own.counts()
        return Pattern(
            line,
            caused,
            runs=len(own),
            last_ms=line.seen_until_ms,
            when=when,
            job_name=_name(line.job),
            per_month=_per_month(ahead, statuses),
            recent_runs=ahead.runs if ahead else 0,
            recent_accepted=ahead.accepted if ahead else 0,
            ids=tuple(self._newest_first(place)),
            statuses=statuses,
        )


def _name(job: Job) -> str:
    """As the reader may know it."""
    if not job.has_pseudonym:
        return job.name
    return job_name_shown(*Job.objects.values_list("user", "name").get(pk=job.pk))


def _per_month(ahead: Projection | None, statuses: Mapping[str, int]) -> Saving | None:
    if ahead is None:
        return None
    return ahead.of_others if statuses["open"] or statuses["snoozed"] else ahead.saving


def patterns(findings: Findings, interval: Interval, *, now: datetime) -> Patterns:
    """The findings by pattern."""
    series, is_running = _series(findings.lines.job)
    causes = max(1, len(findings.lines.spans.labels))
    _, at = numbered(series * causes + findings.lines.cause)
    goes_on = is_running & (findings.last_ms >= to_ms(now) - FRESH_MS)
    when = _when(at, is_running, goes_on)
    when[_recurring(findings, at, when, now)] = WHEN.index(HABIT)
    worth = sums(at, findings.worth, len(when))
    first_pk = np.full(len(when), np.iinfo(np.int64).max)
    np.minimum.at(first_pk, at, findings.pk)
    return _in_order(Patterns(findings, at, goes_on, worth, first_pk, when, interval, now))


def _recurring(findings: Findings, at: Ints, when: Ints, now: datetime) -> list[int]:
    """The patterns of one job that is over here, and came in others in the last two weeks."""
    seen_once = np.flatnonzero((when == WHEN.index(ONCE))[at])
    keys = findings.at(seen_once).keys()
    again = recurring(keys, now=now)
    return [int(at[place]) for place, key in zip(seen_once, keys, strict=True) if key in again]


def _key(line: Line) -> Key:
    return line.finding.its_job.pk, line.finding.cause


def _series(job_ids: Ints) -> tuple[Ints, Bools]:
    """Of each of these jobs the number of its series (one owner and name), and whether it has not
    ended.
    """
    rows = fetched(_SERIES, {"job_ids": np.unique(job_ids)})
    ids = _ids([several for several, _ in rows])
    number = np.repeat(np.arange(len(rows)), [len(_ids([several])) for several, _ in rows])
    order = np.argsort(ids)
    place = np.searchsorted(ids[order], job_ids)
    return number[order][place], np.isin(job_ids, _ids([going_on for _, going_on in rows]))


def _ids(packed: Sequence[bytes | None]) -> Ints:
    return np.frombuffer(b"".join(each or b"" for each in packed), dtype=">i8").astype(np.int64)


def _when(at: Ints, is_running: Bools, goes_on: Bools) -> Ints:
    """Of each pattern its place in WHEN."""
    is_now, comes_back = (np.bincount(at, chosen) > 0 for chosen in (goes_on, is_running))
    comes_back |= np.bincount(at) > 1
    return np.select([is_now, comes_back], [WHEN.index(NOW), WHEN.index(HABIT)], WHEN.index(ONCE))


def _in_order(several: Patterns) -> Patterns:
    """The same, those of most worth first."""
    order = np.lexsort((several.first_pk, -several.worth))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return replace(
        several,
        at=place[several.at],
        worth=several.worth[order],
        first_pk=several.first_pk[order],
        when=several.when[order],
    )


def sparks(shown: Patterns, wanted: slice) -> list[list[float]]:
    """Of each of these patterns the GPU time wasted in each hour or day of the period, as shares of
    the most.
    """
    starts = _steps(shown.interval)
    places = range(len(shown))[wanted]
    place_of = _places(shown, places)
    jobs = sorted({job_id for job_id, _ in place_of})
    wasted = np.zeros((len(places), len(starts)))
    for job_id, cause, step, ms in fetched(
        _WASTED, {"job_ids": jobs, "steps": starts, "end": shown.interval.end}
    ):
        if (job_id, cause) in place_of:
            wasted[place_of[job_id, cause] - places.start, step - 1] += ms
    shares: list[list[float]] = (wasted / np.maximum(wasted.max(axis=1, keepdims=True), 1)).tolist()
    return shares


@dataclass(frozen=True, slots=True)
class Burning:
    """Dollars of the last hour: what the pattern wasted, of all that its jobs did."""

    usd: Decimal
    of_usd: Decimal

    @property
    def is_part(self) -> bool:
        """Whether other causes of its jobs have a cent of it or more."""
        return self.of_usd - self.usd >= pricing.CENT


def burning(shown: Patterns, wanted: slice) -> list[Burning | None]:
    """Of each of these patterns that goes on and wasted more than SLIGHT of the time that it
    affected in the last hour its dollars of that hour, what is potential left out; None of others.
    """
    places = range(len(shown))[wanted]
    of_now = [place for place in places if WHEN[int(shown.when[place])] == NOW]
    place_of = _places(shown, of_now)
    lately = last_hour(sorted({job_id for job_id, _ in place_of}), shown.now)
    of_job: defaultdict[int, Decimal] = defaultdict(Decimal)
    own: defaultdict[int | None, list[Lately]] = defaultdict(list)
    for each in lately:
        of_job[each.job_id] += each.wasted_usd_ms
        own[place_of.get((each.job_id, each.caused.cause))].append(each)
    return [_burning(own[place], of_job) for place in places]


def _burning(several: Sequence[Lately], of_job: Mapping[int, Decimal]) -> Burning | None:
    if not _wastes(each.caused for each in several):
        return None
    usd_ms = sum((each.wasted_usd_ms for each in several), ZERO)
    of_usd_ms = sum((of_job[pk] for pk in {each.job_id for each in several}), ZERO)
    return Burning(pricing.divided(usd_ms), pricing.divided(of_usd_ms))


def _wastes(several: Iterable[Caused]) -> bool:
    whole = total(several)
    return whole.totals.wasted_ms > SLIGHT * whole.held_ms


@dataclass(frozen=True, slots=True)
class GoingOn:
    """How many patterns go on now: of those that waste, as `burning` has it, and of the others,
    which are potential.
    """

    wasting: int
    potential: int


def going_on(shown: Patterns) -> GoingOn:
    several = np.flatnonzero(shown.when == WHEN.index(NOW)).tolist()
    if not several:
        return GoingOn(0, 0)
    place_of = _places(shown, several)
    own: defaultdict[int | None, list[Caused]] = defaultdict(list)
    for each in caused_lately(sorted({job_id for job_id, _ in place_of}), shown.now):
        own[place_of.get((each.job_id or 0, each.cause))].append(each)
    wasting = sum(_wastes(own[place]) for place in several)
    return GoingOn(wasting, len(several) - wasting)


def burning_first(shown: Patterns) -> Patterns:
    """The same, those first that wasted most dollars in the last hour."""
    lately = burning(shown, slice(None))
    usd = [-1 if each is None else int(each.usd * MICRO) for each in lately]
    return _in_order(replace(shown, worth=np.array(usd, dtype=np.int64)))


def _places(shown: Patterns, places: Sequence[int]) -> dict[tuple[int, str], int]:
    """Job and cause of each finding in these patterns -> the place of its pattern."""
    own = np.isin(shown.at, list(places))
    job_ids = shown.findings.lines.job[own].tolist()
    causes = shown.findings.causes()[own].tolist()
    return dict(zip(zip(job_ids, causes, strict=True), shown.at[own].tolist(), strict=True))


def _steps(interval: Interval) -> list[datetime]:
    is_short = interval.end - interval.start <= HOURLY
    return boundaries.steps(interval, "hour" if is_short else "day", zone())
