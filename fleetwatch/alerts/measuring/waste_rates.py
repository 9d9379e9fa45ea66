"""Dollars that somebody wastes hour by hour: what conditions of people and teams measure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.breach import Breach, Watch
from fleetwatch.alerts.episodes import Episode, Level, Measured, Span, extend
from fleetwatch.alerts.measuring.budget_months import known_ms
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as figures
from fleetwatch.figures.totals import Bucket, Group, Totals
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour_ms, floor_hour_ms, from_ms, to_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

LESS = "less is wasted"
NOBODY = (figures.UNALLOCATED, figures.NOBODY, figures.UNMAPPED)
STATES = ("idle", "stalled")
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Waster:
    """Who wasted how much in an episode, by name; `labels` are what scopes and routes match."""

    name: str
    totals: Totals
    labels: dict[str, tuple[str, ...]]
    address: str


def measured(watch: Watch, group_by: str) -> Measured:
    """By user or team how each whole hour stood to the rule. Where what nobody saw, or has no rate,
    could make the difference, nobody knows.
    """
    interval = hours_of(watch.start_ms, watch.end_ms, now_ms=watch.end_ms)
    lines = figures.over_time_by(interval, group_by, "hour") if interval else []
    posted = {
        bucket.start for line in lines for bucket in line.buckets if bucket.totals.capacity_ms
    }
    usd = Decimal(repr(watch.settings.threshold))
    spans = {line.key: _spans(line.buckets, posted, usd) for line in lines}
    nothing = [Span(to_ms(hour), to_ms(hour) + HOUR_MS, Level.CLEAR) for hour in sorted(posted)]
    subjects = (spans.keys() | watch.firing.keys()) - {*NOBODY}
    return Measured({name: spans.get(name, nothing) for name in subjects}, cleared=LESS)


def hours_of(start_ms: int, end_ms: int, *, now_ms: int) -> Interval | None:
    """The whole hours of the time that are posted; None where there are none."""
    start_ms = floor_hour_ms(start_ms)
    end_ms = min(ceil_hour_ms(end_ms), known_ms(now_ms))
    return Interval(from_ms(start_ms), from_ms(end_ms)) if start_ms < end_ms else None


def _spans(buckets: Sequence[Bucket], posted: Collection[datetime], usd: Decimal) -> list[Span]:
    """Of the hours that the ledger has."""
    spans: list[Span] = []
    for bucket in buckets:
        level = _level(bucket.totals, usd) if bucket.start in posted else None
        if level is not None:
            start_ms = to_ms(bucket.start)
            extend(spans, Span(start_ms, start_ms + HOUR_MS, level))
    return spans


def _level(totals: Totals, usd: Decimal) -> Level | None:
    """None: nobody knows."""
    if totals.wasted_usd >= usd:
        return Level.BREACH
    if totals.wasted_usd_at_most >= usd or totals.unpriced_ms:
        return None
    return Level.CLEAR


def wasted_in(episode: Episode, group_by: str, watch: Watch) -> Group | None:
    """What one of them wasted in the episode; None of who has no time in it."""
    interval = hours_of(episode.since_ms, episode.until_ms, now_ms=watch.end_ms)
    lines = figures.totals_by(interval, group_by) if interval else []
    return next((line for line in lines if line.key == episode.subject), None)


def breach(episode: Episode, waster: Waster, watch: Watch, *, kind: str) -> Breach:
    """What is told of it."""
    usd = pricing.usd(waster.totals.wasted_usd)
    hours = Decimal(max(episode.until_ms - episode.since_ms, HOUR_MS)) / HOUR_MS
    rate = pricing.usd(usd / hours)
    limit = f"{wording.usd(Decimal(repr(watch.settings.threshold)))}/h"
    return Breach(
        subject=episode.subject,
        kind=kind,
        address=waster.address,
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="wasteful",
        tag="waste",
        title=f"waste · {waster.name} {wording.usd(rate)}/h",
        where=waster.name,
        what=f"GPUs of {waster.name} wasted {wording.usd(rate)}/h",
        had=f"They had wasted more than {limit}",
        limit=f"wasted ≥ {limit}",
        owner=waster.name,
        usd_per_hour=rate,
        cost_usd=usd,
        has_example_rates=waster.totals.has_example_rates,
        lines=_by_state(waster.totals),
        actions=(
            "Fix: see on the waste page which jobs it is, and end or shrink what does nothing.",
        ),
        labels=waster.labels,
    )


def _by_state(totals: Totals) -> tuple[tuple[str, str], ...]:
    amounts = ((state, totals.cost_by_state[state]) for state in STATES)
    return tuple((state.capitalize(), wording.usd(pricing.usd(usd))) for state, usd in amounts)


def holder_labels(user: str, watch: Watch) -> dict[str, tuple[str, ...]]:
    """The user with the schedulers, clusters and teams of the jobs that ran of late."""
    jobs = Job.objects.filter(user=user, start_ms__gt=watch.end_ms - 30 * DAY_MS)
    rows = jobs.values_list("scheduler", "cluster", "team__slug").distinct()
    values = {"user": {user}, "scheduler": set(), "cluster": set(), "team": set()}
    for scheduler, cluster, team in rows:
        values["scheduler"].add(scheduler)
        values["cluster"].add(cluster)
        values["team"].add(team or "")
    return _without_empty(values)


def _without_empty(values: dict[str, set[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(each - {""})) for name, each in values.items() if each - {""}}


def team_names(slugs: Collection[str]) -> dict[str, str]:
    """By slug, on one line."""
    teams = Team.objects.filter(slug__in=slugs).values_list("slug", "name")
    return {slug: one_line(name or slug, 60) for slug, name in teams}
