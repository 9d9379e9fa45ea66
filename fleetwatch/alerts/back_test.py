"""A rule tried on history before it is switched on: what it would have opened. It is the live
evaluator over a longer period (episodes.py), and writes nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import chain, pairwise
from zoneinfo import ZoneInfo

from django.db.models import Q

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch, Weight
from fleetwatch.alerts.episodes import Episode, Level, Measured, episodes
from fleetwatch.alerts.incidents.muting import ACCEPTED, EXEMPT
from fleetwatch.alerts.matchers import Matcher, matched
from fleetwatch.alerts.models import Incident
from fleetwatch.lib.intervals import MINUTE_MS, Interval, clock_ms, from_ms
from fleetwatch.lib.memo import remembering
from fleetwatch.lib.refusal import RefusedFieldError

# coverage that lets through what was hardly seen: what it adds is missing telemetry's
ANY_COVERAGE = 0.001
FEW = 3  # subjects of which a threshold is suggested that they reach
STEPS = 3  # measured, judged, weighed
LONGER = (2, 4, 8)  # how many times as long a rule could wait
RESOLVES = (15.0, 60.0, 240.0)  # minutes that something is over before it is resolved
LOOKS_ON_MS = int(RESOLVES[-1] * MINUTE_MS)
Place = tuple[str, int, int]  # subject, since when and until when
# what has no owner, as people call one of it
THINGS = {each: each for each in ("team", "budget", "node", "cluster", "channel")} | {"gpu": "GPU"}


@dataclass(frozen=True, slots=True)
class Trial:
    """One incident that would have been, and what people said of the one that was; "" where there
    was none, or nobody said anything.
    """

    episode: Episode
    breach: Breach
    verdict: str

    @property
    def lasted_ms(self) -> int:
        """For how long it was so, as pages of incidents have it."""
        return clock_ms(self.episode.since_ms, self.episode.until_ms)

    @property
    def goes_on(self) -> bool:
        """Whether nobody saw it end within the period."""
        return self.episode.ended_ms is None


@dataclass(frozen=True, slots=True)
class Weighed:
    """The same without its words: whose it is and what it cost."""

    episode: Episode
    weight: Breach | Weight
    verdict: str

    @property
    def has_cost(self) -> bool:
        """Whether dollars are told of it; what is only weighed has some."""
        return isinstance(self.weight, Weight) or self.weight.has_cost


@dataclass(frozen=True, slots=True)
class Trials:
    """Incidents that would have been, the newest first. Of a month there are thousands: all are
    weighed, and a slice of them is described.
    """

    watched: Condition
    watch: Watch
    weighed: tuple[Weighed, ...]

    def __len__(self) -> int:
        return len(self.weighed)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self[:])

    def __getitem__(self, part: slice) -> list[Trial]:
        rows = self.weighed[part]
        breaches = _breaches(self.watched, self.watch, rows)
        return [
            Trial(row.episode, breach, row.verdict)
            for row, breach in zip(rows, breaches, strict=True)
            if breach is not None
        ]


def _breaches(watched: Condition, watch: Watch, rows: Sequence[Weighed]) -> list[Breach | None]:
    described = [row.weight for row in rows if isinstance(row.weight, Breach)]
    if len(described) == len(rows):
        return [*described]
    return watched.describe([row.episode for row in rows], watch)


def _cents_below(value: float) -> float:
    return math.floor(value * 100) / 100


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest value that lasted as long as a rule asks: whose it was, and since when; `few`: of
    the highest of FEW the lowest, None where only one is known.
    """

    value: float
    name: str
    since_ms: int
    few: float | None = None

    @property
    def threshold(self) -> float:
        """That a rule which is set so is breached by it: to cents, rounded down."""
        return _cents_below(self.value)

    @property
    def threshold_of_few(self) -> float | None:
        """That a rule which is set so is breached by a few, lower than by it alone."""
        return None if self.few is None else _cents_below(self.few)


@dataclass(frozen=True, slots=True)
class Wait:
    """What the rule would have opened, had it waited for so many minutes."""

    minutes: float
    incidents: int
    owners: int  # 0 of what has none
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Ending:
    """How many incidents it would have been, had each resolved after so many minutes."""

    minutes: float
    incidents: int


@dataclass(frozen=True, slots=True)
class BackTest:
    """What a rule would have opened in the period; `missing` would have been more but for telemetry
    that is missing, and are not counted. `peak`: of one that would have opened nothing, what came
    next to it (None: nobody can say). `waits` and `endings`: what longer ones would have come to.
    """

    interval: Interval
    trials: Trials
    missing: int
    peak: Peak | None = None
    waits: tuple[Wait, ...] = ()
    endings: tuple[Ending, ...] = ()

    @property
    def by_name(self) -> Counter[str]:
        """How many by whose they are, of what has no owner by what it is; "" = nobody known."""
        is_owned = self.trials.watched.is_owned
        weights = (row.weight for row in self.trials.weighed)
        return Counter(each.owner if is_owned else _name(each) for each in weights)

    @property
    def things_in_words(self) -> str:
        """Of how many `by_name` has them: "2 people", "1 team"; "" of what there is no word for,
        and where nobody is known.
        """
        watched = self.trials.watched
        thing = "person" if watched.is_owned else THINGS.get(watched.kind, "")
        count = len(self.by_name.keys() - {""})
        things = "people" if watched.is_owned else f"{thing}s"
        return f"{count:,} {thing if count == 1 else things}" if thing and count else ""

    @property
    def has_cost(self) -> bool:
        """Whether dollars are told of any of them."""
        return any(row.has_cost for row in self.trials.weighed)

    def by_day(self, zone: ZoneInfo) -> list[tuple[date, int]]:
        """How many began on each day of the period, days without any as well."""
        ends = self.interval.start, self.interval.end
        first, last = (at.astimezone(zone).date() for at in ends)
        begun = Counter(
            max(from_ms(row.episode.since_ms).astimezone(zone).date(), first)
            for row in self.trials.weighed
        )
        days = (first + timedelta(days=number) for number in range((last - first).days + 1))
        return [(day, begun[day]) for day in days]

    @property
    def by_verdict(self) -> Counter[str]:
        """How many by what people said of them."""
        return Counter(row.verdict for row in self.trials.weighed)

    @property
    def owners(self) -> int:
        """How many people would have been told; 0 of what has no owner."""
        return _owners(self.trials.watched, (row.weight for row in self.trials.weighed))

    @property
    def cost_usd(self) -> Decimal:
        """Dollars while they were open, of those whose GPUs have a rate."""
        return _cost_usd(row.weight for row in self.trials.weighed)

    @property
    def agreed_usd(self) -> Decimal:
        """What beside these dollars people agreed as not waste."""
        breaches = (row.weight for row in self.trials.weighed if isinstance(row.weight, Breach))
        return sum((each.agreed_usd or Decimal(0) for each in breaches), Decimal(0))

    @property
    def unpriced(self) -> int:
        """Of how many the dollars are not known."""
        return sum(row.has_cost and row.weight.cost_usd is None for row in self.trials.weighed)


def _owners(watched: Condition, weights: Iterable[Breach | Weight]) -> int:
    return len({each.owner for each in weights} - {""}) if watched.is_owned else 0


def _cost_usd(weights: Iterable[Breach | Weight]) -> Decimal:
    costs = (each.cost_usd for each in weights)
    return sum((cost for cost in costs if cost is not None), Decimal(0))


def _name(weight: Breach | Weight) -> str:
    return (weight.name or weight.where) if isinstance(weight, Breach) else weight.owner


def _nothing() -> None:
    """What is called after each step where nobody looks."""


@remembering()  # what is measured by says what it cost, too
def back_test(
    watched: Condition,
    settings: Settings,
    scope: Sequence[Matcher],
    interval: Interval,
    *,
    on_step: Callable[[], None] = _nothing,
) -> BackTest:
    """What a rule that is set so would have opened, in STEPS steps.

    Raises RefusedFieldError where no history is kept of what it watches.
    """
    watch = replace(_watch(watched, settings, interval), looks_on_ms=LOOKS_ON_MS)
    measured = watched.measure(watch)
    on_step()
    fired = _fired(measured, watch, settings)
    missing = _missing(measured, watch, fired)
    on_step()
    within = _within(watched, watch, scope, fired)
    others = _OtherTimes(watched, watch, scope, measured, fired, within)
    waits = others.waits()
    endings = others.endings()
    on_step()
    unseen = _count_within(watched, watch, scope, missing)
    trials = Trials(watched, watch, _weighed(within, _verdicts(watched, interval)))
    return BackTest(interval, trials, unseen, _peak(trials, scope), waits, endings)


def _weighed(
    within: Iterable[tuple[Episode, Breach | Weight]], verdicts: Mapping[str, Sequence[Incident]]
) -> tuple[Weighed, ...]:
    """The newest first."""
    rows = [Weighed(each, weight, _verdict(each, verdicts)) for each, weight in within]
    return tuple(sorted(rows, key=lambda row: -row.episode.since_ms))


@dataclass(frozen=True, slots=True)
class _OtherTimes:
    """What was measured for a rule, judged as a rule with other times would: what had not lasted
    long enough for it begins anew after a pause. `fired` are the rule's own episodes, `within`
    those of them that the scope is about.
    """

    watched: Condition
    watch: Watch
    scope: Sequence[Matcher]
    measured: Measured
    fired: Sequence[Episode]
    within: Sequence[tuple[Episode, Breach | Weight]]

    def waits(self) -> tuple[Wait, ...]:
        """Longer ones. Most are the rule's own episodes, which are weighed already."""
        settings = self.watch.settings
        every = [settings.minutes * times for times in LONGER]
        # nothing that was so for a shorter time in all lasts as long
        lasting = self._of(_subjects_lasting(self.measured, every[0] * MINUTE_MS))
        several = [
            _fired(lasting, self.watch, replace(settings, minutes=minutes)) for minutes in every
        ]
        weights = self._weights_of({_place(each): each for each in chain.from_iterable(several)})
        return tuple(
            self._wait(minutes, [weights[_place(each)] for each in fired])
            for minutes, fired in zip(every, several, strict=True)
        )

    def endings(self) -> tuple[Ending, ...]:
        """Later ones. What fired once is one incident, however late it resolves."""
        settings = self.watch.settings
        times = Counter(each.subject for each in self.fired)
        subjects = [each.subject for each, _ in self.within]
        once = sum(times[subject] == 1 for subject in subjects)
        again = self._of({subject for subject in subjects if times[subject] > 1})
        return tuple(
            Ending(minutes, once + self._count(again, replace(settings, clear_minutes=minutes)))
            for minutes in RESOLVES
            if minutes > settings.clear_minutes
        )

    def _of(self, subjects: Collection[str]) -> Measured:
        spans = {each: self.measured.spans[each] for each in subjects}
        return replace(self.measured, spans=spans)

    def _count(self, measured: Measured, settings: Settings) -> int:
        fired = _fired(measured, self.watch, settings)
        return _count_within(self.watched, self.watch, self.scope, fired)

    def _weights_of(self, episodes: Mapping[Place, Episode]) -> dict[Place, Breach | Weight | None]:
        """None where the scope is not about it."""
        own = {_place(each) for each in self.fired}
        others = [each for place, each in episodes.items() if place not in own]
        within = [*self.within, *_within(self.watched, self.watch, self.scope, others)]
        return {**dict.fromkeys(episodes), **{_place(each): weight for each, weight in within}}

    def _wait(self, minutes: float, weights: Sequence[Breach | Weight | None]) -> Wait:
        there = [each for each in weights if each is not None]
        return Wait(minutes, len(there), _owners(self.watched, there), _cost_usd(there))


def _subjects_lasting(measured: Measured, least_ms: float) -> list[str]:
    """Those that were in breach for so long in all."""
    return [
        subject
        for subject, spans in measured.spans.items()
        if sum(end_ms - start_ms for start_ms, end_ms, at in spans if at == Level.BREACH)
        >= least_ms
    ]


def _place(episode: Episode) -> Place:
    """By which it weighs what another one does, whenever each fired."""
    return episode.subject, episode.since_ms, episode.until_ms


def _peak(trials: Trials, scope: Sequence[Matcher]) -> Peak | None:
    """What came next to the rule of all that the scope is about; None where something is over."""
    watched = trials.watched
    watch = trials.watch
    rows = watched.highest(watch) if watched.highest and not trials.weighed else []
    several = rows if scope else rows[:FEW]
    breaches = watched.describe([row.episode for row in several], watch) if several else []
    within = [
        Peak(row.value, breach.where, row.episode.since_ms)
        for row, breach in zip(several, breaches, strict=True)
        if breach is not None and matched(scope, breach.labels)
    ][:FEW]
    if not within:
        return None
    return replace(within[0], few=within[-1].value if len(within) > 1 else None)


def described(
    watched: Condition,
    settings: Settings,
    scope: Sequence[Matcher],
    interval: Interval,
    is_wanted: Callable[[Episode], bool],
    *,
    on_step: Callable[[], None] = _nothing,
) -> tuple[list[Trial], int]:
    """The wanted ones of what a rule that is set so would have opened, and how many it would have
    opened beside; those are not described, and so cost little.

    Raises RefusedFieldError where no history is kept of what it watches.
    """
    watch = _watch(watched, settings, interval)
    fired = _fired(watched.measure(watch), watch, settings)
    on_step()
    wanted = [episode for episode in fired if is_wanted(episode)]
    rest = [episode for episode in fired if not is_wanted(episode)]
    trials = _described(watched, watch, scope, wanted)
    return trials, _count_within(watched, watch, scope, rest)


def _described(
    watched: Condition, watch: Watch, scope: Sequence[Matcher], wanted: Sequence[Episode]
) -> list[Trial]:
    verdicts = _verdicts(watched, Interval(from_ms(watch.start_ms), from_ms(watch.end_ms)))
    breaches = watched.describe(wanted, watch) if wanted else []
    return [
        Trial(episode, breach, _verdict(episode, verdicts))
        for episode, breach in zip(wanted, breaches, strict=True)
        if breach is not None and matched(scope, breach.labels)
    ]


def _watch(watched: Condition, settings: Settings, interval: Interval) -> Watch:
    """Raises RefusedFieldError where no history is kept."""
    if watched.no_history:
        raise RefusedFieldError(watched.no_history)
    return Watch(settings=settings, start_ms=interval.start_ms, end_ms=interval.end_ms)


def _within(
    watched: Condition, watch: Watch, scope: Sequence[Matcher], wanted: Sequence[Episode]
) -> list[tuple[Episode, Breach | Weight]]:
    """Those that the scope is about, each with whose it is and what it cost."""
    weights = _weights(watched, watch, scope, wanted) if wanted else ()
    return [
        (episode, weight)
        for episode, weight in zip(wanted, weights, strict=True)
        if weight is not None and matched(scope, weight.labels)
    ]


def _count_within(
    watched: Condition, watch: Watch, scope: Sequence[Matcher], several: Sequence[Episode]
) -> int:
    """How many the scope is about."""
    return len(_within(watched, watch, scope, several)) if scope else len(several)


def _weights(
    watched: Condition, watch: Watch, scope: Sequence[Matcher], wanted: Sequence[Episode]
) -> Sequence[Breach | Weight | None]:
    if watched.weigh is None:
        return watched.describe(wanted, watch)
    return watched.weigh(wanted, watch, {matcher.label for matcher in scope})


def _patchy(measured: Measured) -> Measured:
    """The subjects of which something is missing: of the others coverage makes no difference."""
    spans = {
        subject: each
        for subject, each in measured.spans.items()
        if any(left.end_ms < right.start_ms for left, right in pairwise(each))
    }
    return replace(measured, spans=spans)


def _fired(measured: Measured, watch: Watch, settings: Settings) -> list[Episode]:
    every = episodes(measured, settings.timing, edge_ms=watch.end_ms)
    return [episode for episode in every if episode.fired_ms is not None]


def _missing(measured: Measured, watch: Watch, fired: Sequence[Episode]) -> list[Episode]:
    """What would have fired beside these but for telemetry that is missing."""
    loose = replace(watch.settings, min_coverage=ANY_COVERAGE)
    return _beside(_fired(_patchy(measured), watch, loose), fired)


def _beside(loose: Sequence[Episode], fired: Sequence[Episode]) -> list[Episode]:
    """The loose ones that hold none of those that fired."""
    spans: dict[str, list[Episode]] = {}
    for episode in fired:
        spans.setdefault(episode.subject, []).append(episode)
    return [
        episode
        for episode in loose
        if not any(
            each.since_ms < episode.until_ms and each.until_ms > episode.since_ms
            for each in spans.get(episode.subject, ())
        )
    ]


def _verdicts(watched: Condition, interval: Interval) -> dict[str, list[Incident]]:
    """By subject the incidents of which people said something, also by an agreement that holds."""
    rows: dict[str, list[Incident]] = {}
    answered = Incident.objects.filter(
        ~Q(verdict="") | Q(muted__startswith=ACCEPTED) | Q(muted__startswith=EXEMPT),
        rule__condition=watched.name,
        until_ms__gt=interval.start_ms,
    )
    for incident in answered:
        rows.setdefault(incident.subject, []).append(incident)
    return rows


def _verdict(episode: Episode, verdicts: Mapping[str, Sequence[Incident]]) -> str:
    for incident in verdicts.get(episode.subject, ()):
        if incident.since_ms < episode.until_ms and incident.until_ms > episode.since_ms:
            return Incident.Verdict.REJECTED if incident.is_accepted else incident.verdict
    return ""
