"""What was spent of each budget by when: what conditions of budgets measure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from urllib.parse import urlencode

import numpy as np
from django.db.models import Max, Q
from numpy.typing import NDArray

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import budgets, calendar, daily_dollars, outlooks, run_rate
from fleetwatch.budgets.budgets import WHOLE_FLEET, Limit
from fleetwatch.budgets.models import Budget, Outlook, SpendDay
from fleetwatch.budgets.month_end import MonthEnd
from fleetwatch.budgets.run_rate import RunRate
from fleetwatch.figures import boundaries
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.notify.message import one_line

FLEET = "fleet"
FLEET_LABEL = "the whole fleet"
# dollars are known to micro-dollars: what lies within half of one is what floats add up wrongly
LEAST_USD = 5e-7


@dataclass(frozen=True, slots=True)
class Spending:
    """Dollars of a month that were spent by the end of each hour on the wall, ascending."""

    ends_ms: NDArray[np.int64]
    usd: NDArray[np.float64]

    def by(self, moment_ms: int) -> float:
        """Dollars that were spent by then, as far as hours are over."""
        place = int(np.searchsorted(self.ends_ms, moment_ms, side="right"))
        return float(self.usd[place - 1]) if place else 0.0

    def reached_ms(self, usd: float) -> int | None:
        """When so many dollars were spent; None: they were not."""
        place = int(np.searchsorted(self.usd, usd - LEAST_USD))
        return int(self.ends_ms[place]) if place < len(self.usd) else None

    def known_ms(self, moment_ms: int) -> int | None:
        """The end of the last hour up to then whose dollars are known; None: of none."""
        place = int(np.searchsorted(self.ends_ms, moment_ms, side="right"))
        return int(self.ends_ms[place - 1]) if place else None

    def first(self) -> datetime | None:
        """When the first hour began whose dollars are known; None: of none are they."""
        return from_ms(int(self.ends_ms[0]) - HOUR_MS) if len(self.ends_ms) else None

    def within(self, interval: Interval) -> Decimal:
        """Dollars of whole hours in it, as far as they are known."""
        return usd_of(self.by(interval.end_ms) - self.by(interval.start_ms))


@dataclass(frozen=True, slots=True)
class BudgetMonth:
    """A budget in a month: its dollars (above 0), when it was set, and what was spent of it;
    `subject` is its page below /budgets/, `recorded` since when the fleet's dollars are known in it
    (None: they are not).
    """

    subject: str
    interval: Interval
    usd: float
    set_ms: int
    spending: Spending
    recorded: datetime | None

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The team, of a team's budget."""
        slug = slug_of(self.subject)
        return {"team": (slug,)} if slug else {}

    def spending_path(self, at_ms: int) -> str:
        """The page of who, or which team, spent most of it by then."""
        slug = slug_of(self.subject)
        asked = {"from": self.interval.start_ms, "to": min(at_ms, self.interval.end_ms)}
        of_whom = {"team": slug, "group_by": "user"} if slug else {"group_by": "team"}
        return f"/costs?{urlencode(asked | of_whom)}"

    def run_rate(self, at_ms: int) -> RunRate | None:
        """What its last whole days cost before what is known by then ends, as /budgets says it of a
        month that is a week old; None before one is over, and once the month is.
        """
        known_ms = self.spending.known_ms(at_ms)
        if known_ms is None or known_ms >= self.interval.end_ms:
            return None
        at = from_ms(known_ms)
        last = run_rate.last_days(at, self.recorded)
        if last is None:
            return None
        return run_rate.rate(self.spending.within(last), last, at)


NOTHING = Spending(np.zeros(0, np.int64), np.zeros(0))


def usd_of(amount: float) -> Decimal:
    """As money is told: in cents."""
    return Decimal(repr(round(amount, 2)))


def subject_of(slug: str) -> str:
    """The budget's page below /budgets/."""
    return FLEET if slug == WHOLE_FLEET else f"teams/{slug}"


def slug_of(subject: str) -> str:
    """The team's slug, or WHOLE_FLEET."""
    return WHOLE_FLEET if subject == FLEET else subject.removeprefix("teams/")


def budget_months(start_ms: int, end_ms: int) -> Iterator[BudgetMonth]:
    """Every budget of every month that the period touches, in order of time; without those in a
    currency whose worth nobody said.
    """
    first = calendar.month_of(from_ms(start_ms), zone())
    while (interval := calendar.month(first, zone())).start_ms < end_ms:
        yield from _of_month(first, interval)
        first = calendar.following(first)


def newest_budget_at() -> datetime | None:
    """When somebody last set a budget; None: nobody ever did."""
    newest: datetime | None = Budget.objects.aggregate(Max("created_at"))["created_at__max"]
    return newest


def known_ms(now_ms: int) -> int:
    """All dollars before it are known, but for data that comes late."""
    return to_ms(daily_dollars.known_until(from_ms(now_ms)))


def forecasts() -> dict[str, Outlook]:
    """By the team's slug, or WHOLE_FLEET."""
    fleet = outlooks.all_of("fleet").get("")
    teams = {slug: each for slug, each in outlooks.all_of("team").items() if slug != WHOLE_FLEET}
    return teams if fleet is None else {**teams, WHOLE_FLEET: fleet}


def month_end(month: BudgetMonth, outlook: Outlook | None, at_ms: int) -> MonthEnd | None:
    """What the forecast says of the month's end, as /budgets has it; None where it says nothing."""
    posted = from_ms(max(known_ms(at_ms), month.interval.start_ms))
    if outlook is None or posted >= month.interval.end:
        return None
    spent_usd = usd_of(month.spending.by(to_ms(posted)))
    rest = Interval(posted, month.interval.end)
    return outlooks.until_month_end(outlook, rest, spent_usd, budget_usd=usd_of(month.usd))


def labels_of(slugs: set[str]) -> dict[str, str]:
    """What budgets are called, by slug, on one line."""
    teams = Team.objects.filter(slug__in=slugs).values_list("slug", "name")
    names = {slug: one_line(name or slug, 60) for slug, name in teams}
    return {slug: names.get(slug) or one_line(slug, 60) or FLEET_LABEL for slug in slugs}


def _of_month(first: date, interval: Interval) -> Iterator[BudgetMonth]:
    limits = {slug: each for slug, each in budgets.limits(first).items() if _usd(each)}
    spent = _spending(interval) if limits else {}
    recorded = spent.get(WHOLE_FLEET, NOTHING).first()
    for slug, each in limits.items():
        set_ms = to_ms(each.budget.created_at)
        spending = spent.get(slug, NOTHING)
        yield BudgetMonth(subject_of(slug), interval, _usd(each), set_ms, spending, recorded)


def _usd(limit: Limit) -> float:
    return float(limit.usd or 0)


def _spending(month: Interval) -> dict[str, Spending]:
    """By slug, from the days that are kept; what no team held is in the fleet's alone."""
    kept = SpendDay.objects.filter(start__gte=month.start, start__lt=month.end)
    rows = kept.filter(Q(kind="team") & ~Q(key="") | Q(kind=daily_dollars.FLEET))
    ends = {day.start: _hour_ends(day) for day in boundaries.days(month, zone())}
    parts: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for slug, start, hours in rows.values_list("key", "start", "hours"):
        parts[slug].extend(_known(ends.get(start, {}), hours))
    return {slug: _summed(each) for slug, each in parts.items()}


def _hour_ends(day: Interval) -> Mapping[int, int]:
    """By hour on the wall when it ends."""
    return {cut.hour: cut.interval.end_ms for cut in calendar.cuts_of(day, zone())}


def _known(ends: Mapping[int, int], hours: list[float | None]) -> Iterator[tuple[int, float]]:
    for hour, end_ms in ends.items():
        usd = hours[hour]
        if usd is not None:
            yield end_ms, usd


def _summed(parts: list[tuple[int, float]]) -> Spending:
    ends_ms, usd = zip(*sorted(parts), strict=True) if parts else ((), ())
    return Spending(np.array(ends_ms, dtype=np.int64), np.cumsum(usd))
