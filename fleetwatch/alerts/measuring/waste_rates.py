"""Dollars that somebody wastes hour by hour: what conditions of people and teams measure.

What people agreed as not waste counts for none of them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from math import ceil

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.breach import Breach, Highest, Line, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Firing, Level, Measured, Span, extend
from fleetwatch.alerts.measuring.budget_months import known_ms
from fleetwatch.alerts.models import Silence
from fleetwatch.diagnosis.findings.agreed_waste import (
    ByHour,
    agreed_hours,
    agreed_within,
    explained_hours,
)
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as figures
from fleetwatch.figures.cells import Cell, Waste, summed
from fleetwatch.figures.cells import waste as waste_of
from fleetwatch.figures.totals import ZERO, Scope, Totals
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import posted_hours
from fleetwatch.lib.intervals import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    Interval,
    ceil_hour_ms,
    floor_hour_ms,
    from_ms,
    to_ms,
)
from fleetwatch.lib.memo import read_once
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

LESS = "less is wasted"
LESS_APART = "less is wasted, what is agreed as not waste apart"
AGREED = "what it was about is agreed as not waste: the rest is less than the rule asks for"
NOBODY = (figures.UNALLOCATED, figures.NOBODY, figures.UNMAPPED)
STATES = ("idle", "stalled")
WASTE = Scope(states=(*STATES, "unobserved"))
FIX = "Fix: see on the waste page which jobs these are, and end or shrink what does nothing."
HELD_BY = ("scheduler", "cluster", "team")
FEW = 8  # periods; of more one look at their hours costs less than a look at each
# an hour is diagnosed minutes after it is posted; what is not after so long counts as waste
DIAGNOSED_MS = 2 * HOUR_MS
JUDGED_MS = DIAGNOSED_MS + HOUR_MS  # the rules look at hours each quarter of one
NOT_EXPLAINED_USD_MS = HOUR_MS // 100  # a cent: what less is not explained is a rounding

# what a user or team has of an interval; None = nothing
OfSubject = Callable[[str, Interval], Totals | None]


@dataclass(frozen=True, slots=True)
class Waster:
    """Who wasted how much in an episode, by name, and what of that people agreed as not waste: it
    counts for nothing. `labels` are what scopes and routes match.
    """

    name: str
    totals: Totals
    agreed_usd: Decimal
    labels: dict[str, tuple[str, ...]]
    address: str

    @property
    def agreed(self) -> Decimal:
        """What of it is agreed, as money is told: never more than was wasted."""
        return pricing.usd(min(self.agreed_usd, self.totals.wasted_usd))

    @property
    def counted(self) -> Decimal:
        """What is left of it: what the rule is about."""
        return pricing.usd(self.totals.wasted_usd) - self.agreed

    @property
    def facts(self) -> dict[str, str]:
        """What the breach says of that beside its words."""
        return {"agreed_usd": str(self.agreed)} if self.agreed else {}

    @property
    def lines(self) -> tuple[Line, ...]:
        """What was wasted by state, and what of it people agreed on where that is something."""
        by_state = (
            (state.capitalize(), wording.usd(pricing.usd(self.totals.cost_by_state[state])))
            for state in STATES
        )
        wasted = wording.usd(pricing.usd(self.totals.wasted_usd))
        left_out = f"{wording.usd(self.agreed)} of the {wasted}, not counted"
        agreed = ("Agreed as not waste", left_out)
        return (*by_state, *((agreed,) if self.agreed else ()))


@dataclass(frozen=True, slots=True)
class Limits:
    """From how much of an hour's waste on a rule is breached, and below how much that is over, in
    dollars × milliseconds.
    """

    breach_usd_ms: Decimal
    clear_usd_ms: Decimal

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        """Those of a rule that is set so, in dollars an hour."""
        breach = Decimal(repr(settings.threshold))
        clear = Decimal(repr(settings.clear_at))
        return cls(breach * HOUR_MS, clear * HOUR_MS)


@dataclass(frozen=True, slots=True)
class HourlyWaste:
    """What is wasted or may be, by user or team, hour by hour from `start_ms` on: cells by key and
    number of the hour.
    """

    start_ms: int
    cells: Mapping[str, Mapping[int, Sequence[Cell]]]

    def of(self, key: str, interval: Interval) -> Totals | None:
        """Of whole hours; None of who has no such time in them."""
        hours = self.cells.get(key, {})
        first = (interval.start_ms - self.start_ms) // HOUR_MS
        last = (interval.end_ms - self.start_ms) // HOUR_MS
        within = [hours[hour] for hour in range(first, last) if hour in hours]
        return summed(chain.from_iterable(within)) if within else None


@dataclass(frozen=True, slots=True)
class Counted:
    """What of each hour's waste counts; `waits_from` is the number of the first hour whose waste
    may wait for diagnosis (None: nobody agreed to anything).
    """

    waste: HourlyWaste
    agreed: ByHour
    explained: ByHour
    waits_from: int | None

    def of(self, key: str, start_ms: int) -> Waste | None:
        """Of the hour that begins then, in dollars x milliseconds: what is agreed is none, and what
        waits for diagnosis may be none; None of who has no such time in it.
        """
        hour = self._number(start_ms)
        cells = self.waste.cells.get(key, {}).get(hour)
        if not cells:
            return None
        whole = waste_of(cells)
        agreed = self.agreed.get(key, {}).get(hour, ZERO)
        waiting = self._waiting(key, hour, whole.wasted_usd_ms)
        wasted = max(ZERO, whole.wasted_usd_ms - agreed - waiting)
        return whole._replace(wasted_usd_ms=wasted, unseen_usd_ms=whole.unseen_usd_ms + waiting)

    def is_agreed(self, key: str, start_ms: int) -> bool:
        """Whether something of that hour is agreed as not waste."""
        return bool(self.agreed.get(key, {}).get(self._number(start_ms)))

    def _waiting(self, key: str, hour: int, wasted_usd_ms: Decimal) -> Decimal:
        if self.waits_from is None or hour < self.waits_from:
            return ZERO
        waiting = wasted_usd_ms - self.explained.get(key, {}).get(hour, ZERO)
        return waiting if waiting >= NOT_EXPLAINED_USD_MS else ZERO

    def _number(self, start_ms: int) -> int:
        return (start_ms - self.waste.start_ms) // HOUR_MS


def measured(watch: Watch, group_by: str) -> Measured:
    """By user or team how each whole hour stood to the rule. Where what nobody saw, has no rate, or
    waits for diagnosis could make the difference, nobody knows.
    """
    interval = hours_of(watch.start_ms, watch.end_ms, now_ms=watch.end_ms)
    if interval is None:
        return Measured({}, cleared=LESS)
    counted = _counted(interval, group_by, watch)
    posted = posted_hours(interval)
    limits = Limits.of(watch.settings)
    subjects = (counted.waste.cells.keys() | watch.firing.keys()) - {*NOBODY}
    spans = {name: _spans(counted, name, posted, limits) for name in subjects}
    ends = {
        name: End(firing.until_ms, AGREED)
        for name, firing in watch.firing.items()
        if _is_agreed_since(counted, name, firing, spans.get(name, ()))
    }
    return Measured(
        spans | dict.fromkeys(ends, ()),
        ends=ends,
        cleared=LESS_APART if counted.agreed else LESS,
    )


def _counted(interval: Interval, group_by: str, watch: Watch) -> Counted:
    """Agreements are looked for where there are any."""
    waste = hourly_waste(interval, group_by)
    now = from_ms(watch.end_ms)
    if not _is_any_agreed(now):
        return Counted(waste, {}, {}, None)
    agreed = agreed_hours(interval, group_by, now=now)
    waits_ms = max(interval.start_ms, floor_hour_ms(watch.end_ms - DIAGNOSED_MS))
    if waits_ms >= interval.end_ms:
        return Counted(waste, agreed, {}, None)
    first = (waits_ms - interval.start_ms) // HOUR_MS
    newest = explained_hours(Interval(from_ms(waits_ms), interval.end), group_by)
    explained = {
        key: {first + hour: usd_ms for hour, usd_ms in hours.items()}
        for key, hours in newest.items()
    }
    return Counted(waste, agreed, explained, first)


def _is_agreed_since(counted: Counted, name: str, firing: Firing, spans: Sequence[Span]) -> bool:
    """Whether people agreed since to what the last hour of its breach was, so that it is none."""
    last_ms = floor_hour_ms(firing.until_ms - 1)
    since = [span.level for span in spans if span.end_ms > last_ms]
    is_clear = bool(since) and all(level == Level.CLEAR for level in since)
    return is_clear and counted.is_agreed(name, last_ms)


@read_once
def hourly_waste(interval: Interval, group_by: str) -> HourlyWaste:
    """What each user or team wasted in whole hours, and what of their time nobody saw."""
    seen = figures.look(interval, group_by, scope=WASTE, step="hour")
    parts = seen.steps(group_by)
    lines = seen.lines(group_by, parts)
    return HourlyWaste(interval.start_ms, {lines[key][0]: part for key, part in parts.items()})


def hours_of(start_ms: int, end_ms: int, *, now_ms: int) -> Interval | None:
    """The whole hours of the time that are posted; None where there are none."""
    start_ms = floor_hour_ms(start_ms)
    end_ms = min(ceil_hour_ms(end_ms), known_ms(now_ms))
    return Interval(from_ms(start_ms), from_ms(end_ms)) if start_ms < end_ms else None


def _spans(counted: Counted, key: str, posted: Sequence[datetime], limits: Limits) -> list[Span]:
    """Of the hours that the ledger has."""
    spans: list[Span] = []
    for start_ms in map(to_ms, posted):
        waste = counted.of(key, start_ms)
        level = Level.CLEAR if waste is None else _level(waste, limits)
        if level is not None:
            extend(spans, Span(start_ms, start_ms + HOUR_MS, level))
    return spans


def _level(waste: Waste, limits: Limits) -> Level | None:
    """None: nobody knows."""
    if waste.wasted_usd_ms >= limits.breach_usd_ms:
        return Level.BREACH
    most = waste.wasted_usd_ms + waste.unseen_usd_ms
    if most >= limits.breach_usd_ms or waste.is_unpriced:
        return None
    return Level.CLEAR if most < limits.clear_usd_ms else Level.BETWEEN


def highest(watch: Watch, group_by: str) -> list[Highest]:
    """What each user or team wasted an hour at most, for as many whole hours on end as the rule
    asks; the highest first, in dollars. Nobody of whom that is nothing.
    """
    interval = hours_of(watch.start_ms, watch.end_ms, now_ms=watch.end_ms)
    if interval is None:
        return []
    counted = _counted(interval, group_by, watch)
    posted = [to_ms(start) for start in posted_hours(interval)]
    asked = max(1, ceil(watch.settings.minutes * MINUTE_MS / HOUR_MS))
    subjects = counted.waste.cells.keys() - {*NOBODY}
    rows = [_highest(counted, name, posted, asked) for name in sorted(subjects)]
    return sorted((row for row in rows if row.value > 0), key=lambda row: -row.value)


def _highest(counted: Counted, key: str, posted: Sequence[int], asked: int) -> Highest:
    """Of the times on end of so many hours the one whose least hour wasted most."""
    hours = [counted.of(key, start_ms) for start_ms in posted]
    wasted = [hour.wasted_usd_ms if hour else ZERO for hour in hours]
    on_end = (
        (min(wasted[place : place + asked]), -start_ms)
        for place, start_ms in enumerate(posted[: len(posted) - asked + 1])
        if posted[place + asked - 1] - start_ms == (asked - 1) * HOUR_MS
    )
    best = max(on_end, default=(ZERO, -counted.waste.start_ms))
    since_ms = -best[1]  # the earliest, of several that are as high
    episode = Episode(key, since_ms, since_ms + asked * HOUR_MS, None)
    return Highest(episode, float(best[0] / HOUR_MS))


def wasted_in(episodes: Sequence[Episode], group_by: str, watch: Watch) -> list[Totals | None]:
    """What each of them wasted in its episode, and what of it nobody saw; None of who has no such
    time in it.
    """
    hours = [hours_of(each.since_ms, each.until_ms, now_ms=watch.end_ms) for each in episodes]
    several = {interval for interval in hours if interval is not None}
    if len(several) > FEW:
        watched = hours_of(watch.start_ms, watch.end_ms, now_ms=watch.end_ms)
        # with those of the period, which were read to measure
        totals = _from_hours(several | ({watched} if watched else set()), group_by)
    else:
        totals = _from_each(several, group_by)
    return [
        None if interval is None else totals(each.subject, interval)
        for each, interval in zip(episodes, hours, strict=True)
    ]


def agreed_in(episodes: Sequence[Episode], group_by: str, watch: Watch) -> list[Decimal]:
    """What of the waste of each in its episode people agreed as not waste."""
    now = from_ms(watch.end_ms)
    hours = [hours_of(each.since_ms, each.until_ms, now_ms=watch.end_ms) for each in episodes]
    asked = [
        (each.subject, interval)
        for each, interval in zip(episodes, hours, strict=True)
        if interval is not None
    ]
    if not asked or not _is_any_agreed(now):
        return [ZERO] * len(episodes)
    amounts = iter(agreed_within(asked, group_by, now=now))
    return [ZERO if interval is None else next(amounts) for interval in hours]


def _is_any_agreed(now: datetime) -> bool:
    """Whether somebody agreed to anything: seldom, and what follows from it is read with care."""
    silences = Silence.objects.filter(
        kind__in=(Silence.Kind.EXEMPTION, Silence.Kind.JUSTIFICATION),
        starts_at__lte=now,
        ends_at__gt=now,
    )
    return silences.exists() or Finding.objects.filter(status=Finding.Status.DISMISSED).exists()


def _from_hours(several: Collection[Interval], group_by: str) -> OfSubject:
    """By one look at every hour from the first to the last."""
    start = min(each.start for each in several)
    end = max(each.end for each in several)
    return hourly_waste(Interval(start, end), group_by).of


def _from_each(several: Collection[Interval], group_by: str) -> OfSubject:
    """By a look at each, which may read sums of days."""
    totals = {
        (line.key, interval): line.totals
        for interval in several
        for line in figures.totals_by(interval, group_by, scope=WASTE)
    }
    return lambda key, interval: totals.get((key, interval))


def _rate(usd: Decimal, episode: Episode) -> Decimal:
    """Dollars an hour, of an episode of an hour or more."""
    hours = Decimal(max(episode.until_ms - episode.since_ms, HOUR_MS)) / HOUR_MS
    return pricing.usd(usd / hours)


def breach(episode: Episode, waster: Waster, watch: Watch, *, kind: str) -> Breach:
    """What is told of it."""
    usd = waster.counted
    rate = _rate(usd, episode)
    per_hour = f"{wording.usd(rate)}/h"
    limit = f"{wording.usd(Decimal(repr(watch.settings.threshold)))}/h"
    return Breach(
        subject=episode.subject,
        kind=kind,
        address=waster.address,
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="wasteful",
        tag="waste",
        title=f"waste · {waster.name} {per_hour}",
        where=waster.name,
        what=f"GPUs of {waster.name} wasted {per_hour}",
        has=f"GPUs of {waster.name} have wasted {per_hour}",
        had=f"They had wasted more than {limit}",
        limit=f"wasted ≥ {limit}",
        owner=waster.name,
        usd_per_hour=rate,
        cost_usd=usd,
        has_example_rates=waster.totals.has_example_rates,
        lines=waster.lines,
        actions=(FIX,),
        labels=waster.labels,
        facts=waster.facts,
    )


def holder_labels(users: Collection[str], watch: Watch) -> dict[str, dict[str, tuple[str, ...]]]:
    """Each user with the schedulers, clusters and teams of the jobs that ran of late."""
    jobs = Job.objects.filter(user__in=users, start_ms__gt=watch.end_ms - 30 * DAY_MS)
    rows = jobs.order_by().values_list("user", "scheduler", "cluster", "team__slug").distinct()
    values = {user: {"user": {user}} | {name: set() for name in HELD_BY} for user in users}
    for user, *row in rows:
        for name, value in zip(HELD_BY, row, strict=True):
            values[user][name].add(value or "")
    return {user: _without_empty(each) for user, each in values.items()}


def _without_empty(values: dict[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(each - {""})) for name, each in values.items() if each - {""}}


def team_names(slugs: Collection[str]) -> dict[str, str]:
    """By slug, on one line."""
    teams = Team.objects.filter(slug__in=slugs).values_list("slug", "name")
    return {slug: one_line(name or slug, 60) for slug, name in teams}
