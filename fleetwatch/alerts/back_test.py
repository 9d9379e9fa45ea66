"""A rule tried on history before it is switched on: what it would have opened. It is the live
evaluator over a longer period (episodes.py), and writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode, Measured, episodes
from fleetwatch.alerts.matchers import Matcher, matched
from fleetwatch.alerts.models import Incident
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError

# coverage that lets through what was hardly seen: what it adds is missing telemetry's
ANY_COVERAGE = 0.001


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
        """For how long it was so."""
        return self.episode.until_ms - self.episode.since_ms


@dataclass(frozen=True, slots=True)
class BackTest:
    """What a rule would have opened in the period, the newest first; `missing` would have been more
    but for telemetry that is missing, and are not counted.
    """

    interval: Interval
    trials: tuple[Trial, ...]
    missing: int

    @property
    def owners(self) -> int:
        """How many people would have been told."""
        return len({trial.breach.owner for trial in self.trials if trial.breach.owner})

    @property
    def cost_usd(self) -> Decimal:
        """Dollars while they were open, of those whose GPUs have a rate."""
        return sum((trial.breach.cost_usd or Decimal(0) for trial in self.trials), Decimal(0))

    @property
    def unpriced(self) -> int:
        """Of how many the dollars are not known."""
        return sum(trial.breach.cost_usd is None for trial in self.trials)


def back_test(
    watched: Condition, settings: Settings, scope: Sequence[Matcher], interval: Interval
) -> BackTest:
    """What a rule that is set so would have opened.

    Raises RefusedFieldError where no history is kept of what it watches.
    """
    if watched.no_history:
        raise RefusedFieldError(watched.no_history)
    watch = Watch(settings=settings, start_ms=interval.start_ms, end_ms=interval.end_ms)
    measured = watched.measure(watch)
    fired = _fired(measured, watch, settings)
    loose = _fired(measured, watch, replace(settings, min_coverage=ANY_COVERAGE))
    missing = _beside(loose, fired)
    verdicts = _verdicts(watched, interval)
    trials = [
        Trial(episode, breach, _verdict(episode, verdicts))
        for episode, breach in _within(watched, watch, scope, fired)
    ]
    trials.sort(key=lambda trial: -trial.episode.since_ms)
    unseen = len(_within(watched, watch, scope, missing)) if scope else len(missing)
    return BackTest(interval, tuple(trials), unseen)


def _within(
    watched: Condition, watch: Watch, scope: Sequence[Matcher], wanted: Sequence[Episode]
) -> list[tuple[Episode, Breach]]:
    """Those that the scope is about, each with what there is to say of it."""
    described = zip(wanted, watched.describe(wanted, watch) if wanted else (), strict=True)
    return [
        (episode, breach)
        for episode, breach in described
        if breach is not None and matched(scope, breach.labels)
    ]


def _fired(measured: Measured, watch: Watch, settings: Settings) -> list[Episode]:
    every = episodes(measured, settings.timing, edge_ms=watch.end_ms)
    return [episode for episode in every if episode.fired_ms is not None]


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
    """By subject the incidents of which people said something."""
    rows: dict[str, list[Incident]] = {}
    answered = Incident.objects.filter(
        rule__condition=watched.name, until_ms__gt=interval.start_ms
    ).exclude(verdict="")
    for incident in answered:
        rows.setdefault(incident.subject, []).append(incident)
    return rows


def _verdict(episode: Episode, verdicts: Mapping[str, Sequence[Incident]]) -> str:
    for incident in verdicts.get(episode.subject, ()):
        if incident.since_ms < episode.until_ms and incident.until_ms > episode.since_ms:
            return incident.verdict
    return ""
