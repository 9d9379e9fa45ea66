"""What the last days cost, for a month that no forecast is made of."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import calendar
from fleetwatch.budgets.budgets import WHOLE_FLEET
from fleetwatch.figures import boundaries
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import Interval

DAYS = 7
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RunRate:
    """Dollars of the last whole days that were recorded, DAYS of them at most, and how many days of
    the month are left.
    """

    usd: Decimal
    days: int
    days_left: Decimal

    @property
    def usd_per_day(self) -> Decimal:
        return self.usd / self.days

    @property
    def usd_left(self) -> Decimal:
        """What the rest of the month costs at this rate."""
        return self.usd * self.days_left / self.days


def run_rates(now: datetime) -> dict[str, RunRate]:
    """By team, of those that spent something, and of WHOLE_FLEET; none before a whole day is
    recorded.
    """
    last = last_days(now, costs.ledger_began())
    if last is None:
        return {}
    groups = costs.totals_by(last, "team")
    spent = {group.key: group.totals.cost_usd for group in groups}
    fleet_usd = exact_sum(spent.values())
    return {key: rate(usd, last, now) for key, usd in [*spent.items(), (WHOLE_FLEET, fleet_usd)]}


def run_rate(team: Team | None, now: datetime) -> RunRate | None:
    """Of one team, or of the fleet; None before a whole day is recorded."""
    last = last_days(now, costs.ledger_began())
    if last is None:
        return None
    scope = Scope() if team is None else Scope(team=team.slug)
    return rate(costs.totals(last, scope=scope).cost_usd, last, now)


def together(rates: Iterable[RunRate | None]) -> RunRate | None:
    """Those of the same days that there are as one; None of none."""
    every = [rate for rate in rates if rate]
    return replace(every[0], usd=exact_sum(rate.usd for rate in every)) if every else None


def last_days(now: datetime, began: datetime | None) -> Interval | None:
    """The last whole days, DAYS of them at most, of what is recorded since it `began`; None before
    one is over.
    """
    if began is None:
        return None
    home = zone()
    end = boundaries.midnight(now, home)
    recorded = boundaries.midnight(began, home)
    first = recorded if recorded == began else boundaries.midnight(began, home, days=1)
    start = max(boundaries.midnight(now, home, days=-DAYS), first)
    return Interval(start, end) if start < end else None


def rate(usd: Decimal, last: Interval, now: datetime) -> RunRate:
    """What these days cost, for the rest of the month."""
    days = len(boundaries.days(last, zone()))
    left = calendar.month(calendar.month_of(now, zone()), zone()).end - now
    return RunRate(usd, days, Decimal(left // SECOND) / (DAY // SECOND))
