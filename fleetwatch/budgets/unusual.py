"""Anomalies of teams, GPU models, nodes and the fleet: found each hour, kept, explained by what
moved most.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Min, Q

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import anomalies, calendar, daily_dollars, forecast
from fleetwatch.budgets.daily_dollars import METRICS, History
from fleetwatch.budgets.models import KINDS, Anomaly, SpendDay
from fleetwatch.figures import boundaries
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.pricing import MICRO_USD
from fleetwatch.figures.selectors import Line, Scope
from fleetwatch.lib.intervals import Interval

LOOKS_BACK_DAYS = 35  # as far as late data reopens hours
# of history before the first hour that can be judged
ENOUGH_DAYS = anomalies.FEWEST_WEEKS * forecast.WEEK
KEPT = timedelta(days=400)
EXPLAINED_PER_RUN = 20
MOVERS = 3  # of each kind
ENDED = timedelta(hours=2)  # an anomaly whose last hour is older than this does not grow any more
WEEK = timedelta(days=7)
Changes = defaultdict[Line, Decimal]  # dollars
_Name = tuple[str, str, str, datetime]


@dataclass(frozen=True, slots=True)
class Mover:
    """A job, user or node whose dollars changed by `usd` against the same hours of the weeks
    before.
    """

    key: str
    label: str
    usd: Decimal


@dataclass(frozen=True, slots=True)
class Seen:
    """An anomaly as it is told: `label` names the series, `is_open` says that it may still grow."""

    anomaly: Anomaly
    label: str
    is_open: bool

    @property
    def excess_usd(self) -> Decimal:
        """Dollars beyond the usual; negative = less was spent."""
        return self.anomaly.usd - self.anomaly.usual_usd

    @property
    def movers(self) -> list[tuple[str, list[Mover]]]:
        """What moved most, by kind: job, user, node."""
        by_kind: dict[str, list[Mover]] = {}
        for each in self.anomaly.movers:
            by_kind.setdefault(each["kind"], []).append(
                Mover(each["key"], each["label"], Decimal(each["usd"]))
            )
        return list(by_kind.items())


def refresh_anomalies(now: datetime) -> dict[str, int]:
    """How many anomalies there are in the last weeks, and how many are new, changed or gone.

    Safe twice.
    """
    # what lies at the edge of the window is cut by it: that one stays as it was found
    horizon = boundaries.midnight(now, zone(), days=1 - LOOKS_BACK_DAYS)
    stored = {_name(row): row for row in Anomaly.objects.filter(start__gt=horizon)}
    pairs = _pairs(stored, horizon, now)
    kept = {before.pk for before, row in pairs if _content(before) == _content(row)}
    changed = [row for before, row in pairs if before.pk not in kept]
    over = Q(start__gt=horizon) & ~Q(pk__in=kept) | Q(end__lt=now - KEPT)
    with transaction.atomic():
        Anomaly.objects.filter(over).delete()
        Anomaly.objects.bulk_create(changed)
    return {"anomalies": len(pairs), "changed": len(changed), "gone": len(stored)}


def _pairs(
    stored: dict[_Name, Anomaly], horizon: datetime, now: datetime
) -> list[tuple[Anomaly, Anomaly]]:
    """Each anomaly as it was, taken out of what is stored (one that is new as an empty one), and as
    it is: it keeps when it was found and why; the newest that grew are explained anew.
    """
    rows = [row for kind in KINDS for row in _of_kind(kind, now) if row.start > horizon]
    pairs = [(stored.pop(_name(row), Anomaly(found_at=now)), row) for row in rows]
    for before, row in pairs:
        row.found_at = before.found_at
        row.movers = before.movers
    grown = [row for before, row in pairs if before.end != row.end]
    for row in sorted(grown, key=lambda row: row.end, reverse=True)[:EXPLAINED_PER_RUN]:
        row.movers = _movers(row) or row.movers
    return pairs


def days_known(now: datetime, *, kind: str = "fleet", key: str = "") -> int:
    """How many whole days there are since the first one with dollars of that series."""
    spent = SpendDay.objects.filter(kind=kind, key=key, usd__gt=0)
    first = spent.aggregate(first=Min("start"))["first"]
    if first is None:
        return 0
    return boundaries.days_since(first, zone(), now=now)


def anomalies_of(
    interval: Interval, *, kind: str | None = None, key: str | None = None, now: datetime
) -> list[Seen]:
    """Anomalies that overlap the interval, the newest first."""
    rows = Anomaly.objects.filter(start__lt=interval.end, end__gt=interval.start).order_by(
        "-end", "-start", "kind", "key", "metric"
    )
    rows = rows if kind is None else rows.filter(kind=kind)
    return _seen(rows if key is None else rows.filter(key=key), now)


def _seen(rows: Iterable[Anomaly], now: datetime) -> list[Seen]:
    anomaly_rows = list(rows)
    slugs = {row.key for row in anomaly_rows if row.kind == "team"}
    names = dict(Team.objects.filter(slug__in=slugs).values_list("slug", "name"))
    return [Seen(row, _label(row, names), row.end > now - ENDED) for row in anomaly_rows]


def _label(row: Anomaly, teams: dict[str, str]) -> str:
    if row.kind == "fleet":
        return "Whole fleet"
    if row.kind == "team":
        return teams.get(row.key) or row.key or "unallocated"
    return row.key


def _of_kind(kind: str, now: datetime) -> list[Anomaly]:
    kept = daily_dollars.read_history(kind, now, with_today=True)
    since = max(0, len(kept.days) - LOOKS_BACK_DAYS)
    floor = settings.ANOMALY_FLOOR_USD_PER_DAY
    return [
        _row(each, kind, metric, kept)
        for metric in METRICS
        for each in anomalies.unusual_hours(
            kept.usd[metric], since_day=since, floor_usd_per_day=floor
        )
    ]


def _name(row: Anomaly) -> _Name:
    return (row.kind, row.key, row.metric, row.start)


def _row(each: anomalies.UnusualHours, kind: str, metric: str, kept: History) -> Anomaly:
    return Anomaly(
        kind=kind,
        key=kept.keys[each.series],
        metric=metric,
        start=_hour(kept, each.first).start,
        end=_hour(kept, each.last).end,
        usd=_micro(each.usd),
        usual_usd=_micro(each.usual_usd),
        spreads=round(max(-999.0, min(999.0, each.spreads)), 1),
    )


def _hour(kept: History, place: int) -> Interval:
    """The hour on the wall at that place; next to one that was skipped, the day's nearest."""
    day, hour = divmod(place, calendar.HOURS)
    interval = calendar.wall_hour(kept.days[day], hour, zone()) or calendar.wall_hour(
        kept.days[day], hour + 1, zone()
    )
    return interval or kept.days[day]


def _micro(usd: float) -> Decimal:
    return Decimal(repr(usd)).quantize(MICRO_USD)


def _content(row: Anomaly) -> tuple[object, ...]:
    return (row.end, row.usd, row.usual_usd, row.spreads)


def _movers(row: Anomaly) -> list[dict[str, str]]:
    """Jobs, users and nodes whose dollars differ most from those of the same hours of the weeks
    before, in its direction.
    """
    during = Interval(row.start, row.end)
    back = WEEK * -(-(row.end - row.start) // WEEK)
    before = Interval(row.start - back, row.end - back)
    sign = 1 if row.usd >= row.usual_usd else -1
    moved = _changes(row, during, before)
    return [line for kind, changes in moved.items() for line in _largest(kind, changes, sign)]


def _changes(row: Anomaly, during: Interval, before: Interval) -> dict[str, Changes]:
    """How the dollars of each line changed, by kind of line."""
    narrowed: dict[str, Any] = {} if row.kind == "fleet" else {row.kind: row.key}
    moved: dict[str, Changes] = {
        kind: defaultdict(Decimal) for kind in ("job", "user", "node") if kind != row.kind
    }
    for interval, sign in ((during, 1), (before, -1)):
        seen = costs.look(interval, *moved, scope=Scope(**narrowed))
        for kind, changes in moved.items():
            for group in seen.by(kind):
                usd = getattr(group.totals, f"{row.metric}_usd")
                changes[group.key, group.label] += sign * usd
    return moved


def _largest(kind: str, changes: Changes, sign: int) -> list[dict[str, str]]:
    """The largest changes in that direction, as they are kept."""
    moved = sorted(
        (
            (sign * usd, key, label)
            for (key, label), usd in changes.items()
            if key not in (costs.UNALLOCATED, costs.NOBODY)
        ),
        reverse=True,
    )
    return [
        {"kind": kind, "key": key, "label": label, "usd": str((sign * usd).quantize(MICRO_USD))}
        for usd, key, label in moved[:MOVERS]
        if usd > 0
    ]
