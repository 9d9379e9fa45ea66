"""Reads of budgets: each team's month so far, its end, and its budget."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Min, QuerySet

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import budgets, calendar, month_end, outlooks, run_rate
from fleetwatch.budgets.budgets import WHOLE_FLEET, Limit
from fleetwatch.budgets.models import Outlook, SpendDay
from fleetwatch.budgets.month_end import MonthEnd
from fleetwatch.budgets.outlooks import Tried
from fleetwatch.budgets.run_rate import RunRate
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.selectors import Bucket, Group, Scope, Totals
from fleetwatch.figures.totals import UNALLOCATED, nothing, together
from fleetwatch.lib.intervals import Interval

FLEET_NAME = (WHOLE_FLEET, "Whole fleet")
# nobody's budget: in the fleet's line
NO_TEAMS = (UNALLOCATED, costs.NOBODY, costs.UNMAPPED)


@dataclass(frozen=True, slots=True)
class Month:
    """The running month: `so_far` is what of it is over (None = nothing yet), `rest` what is to
    come (None = nothing left).
    """

    first: date
    whole: Interval
    so_far: Interval | None
    rest: Interval | None


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One team's month, or the fleet's (key WHOLE_FLEET)."""

    key: str
    label: str
    spent_usd: Decimal
    wasted_usd: Decimal  # of what was spent
    unpriced_ms: int  # time without a rate: in no dollar figure
    limit: Limit | None
    end: MonthEnd | None  # None = no forecast; `reason` says why
    reason: str
    tried: list[Tried]
    # since when there are figures, where that is within the month; None = all of it has some
    recorded_since: datetime | None
    run_rate: RunRate | None = None  # where there is no forecast

    @property
    def is_fleet(self) -> bool:
        return self.key == WHOLE_FLEET

    @property
    def budget_usd(self) -> Decimal | None:
        return None if self.limit is None else self.limit.usd

    @property
    def share(self) -> Decimal | None:
        """Spent ÷ budget; None without a budget."""
        return None if self.budget_usd is None else self.spent_usd / self.budget_usd

    @property
    def at_run_rate_usd(self) -> Decimal | None:
        """What was spent, and the rest of the month at the run rate; None where there is none."""
        return None if self.run_rate is None else self.spent_usd + self.run_rate.usd_left

    @property
    def run_rate_share(self) -> Decimal | None:
        """The month at the run rate ÷ budget; None where one of them is not known."""
        at_run_rate_usd = self.at_run_rate_usd
        if at_run_rate_usd is None or self.budget_usd is None:
            return None
        return at_run_rate_usd / self.budget_usd

    @property
    def wasted_share(self) -> Decimal | None:
        """Wasted ÷ spent; None where nothing was spent."""
        return self.wasted_usd / self.spent_usd if self.spent_usd else None

    @property
    def forecast_share(self) -> float | None:
        """Expected at the month's end ÷ budget; None where one of them is not known."""
        return (
            None
            if self.end is None or self.budget_usd is None
            else self.end.end.expected_usd / float(self.budget_usd)
        )

    @property
    def coming_usd(self) -> float | None:
        """What is still to come of the month by the forecast; None without one."""
        return None if self.end is None else self.end.end.expected_usd - float(self.spent_usd)

    @property
    def leans(self) -> str:
        """Where earlier forecasts were off to nearly always: "more" or "less" came than they said;
        "" where it went both ways, or nothing is known.
        """
        return "" if self.end is None else self.end.end.leans

    @property
    def risk(self) -> str:
        """One of month_end.RISKS."""
        if self.limit is not None and self.budget_usd is None:
            return month_end.UNKNOWN
        end = None if self.end is None else self.end.end
        is_partial = self.recorded_since is not None
        return month_end.risk(self.spent_usd, self.budget_usd, end, is_partial=is_partial)


@dataclass(frozen=True, slots=True)
class Past:
    """A month that is over, as far as hours of it are kept."""

    first: date
    spent_usd: Decimal
    budget_usd: Decimal | None


def running_month(now: datetime) -> Month:
    first = calendar.month_of(now, zone())
    whole = calendar.month(first, zone())
    until = max(whole.start, now)
    so_far = Interval(whole.start, until) if until > whole.start else None
    return Month(first, whole, so_far, Interval(until, whole.end) if until < whole.end else None)


@dataclass(frozen=True, slots=True)
class MonthLines:
    """The fleet's line and then every team's with a budget, dollars this month or a forecast, most
    pressing first; and what of the fleet's is no team's: None = nothing was, or is expected.
    """

    lines: list[BudgetLine]
    unallocated: BudgetLine | None
    teamless_usd: Decimal  # what of `unallocated` jobs without a team spent


def lines(now: datetime) -> list[BudgetLine]:
    """The fleet first, then the teams, most pressing first."""
    return month_lines(now).lines


def month_lines(now: datetime) -> MonthLines:
    """Every line of the running month."""
    month = running_month(now)
    since = costs.not_recorded_before(month.whole.start, now)
    groups = costs.totals_by(month.so_far, "team") if month.so_far else []
    limits = budgets.limits(month.first)
    spent = together(group.totals for group in groups)
    outlook = outlooks.all_of("fleet").get("")
    fleet = _line(FLEET_NAME, spent, limits.get(WHOLE_FLEET), outlook, month, since)
    every = _lines(groups, limits, month, since)
    teams = [line for line in every if line.key not in NO_TEAMS]
    nobodys = [line for line in every if line.key in NO_TEAMS and line.spent_usd]
    return _in_order(fleet, teams, nobodys=nobodys)


def _in_order(
    fleet: BudgetLine, teams: Sequence[BudgetLine], *, nobodys: Sequence[BudgetLine]
) -> MonthLines:
    """The fleet's line and the teams', most pressing first, and what is no team's as one."""
    teamless_usd = exact_sum(line.spent_usd for line in nobodys if line.key != UNALLOCATED)
    lines = [fleet, *sorted(teams, key=_pressing)]
    return MonthLines(lines, _unallocated(nobodys), teamless_usd)


def any_run_rate(lines: Iterable[BudgetLine]) -> RunRate | None:
    """One of them: all are of the same days; None where each line has a forecast."""
    return next((line.run_rate for line in lines if line.run_rate), None)


def with_run_rates(seen: MonthLines, now: datetime) -> MonthLines:
    """The lines, those without a forecast with what the last days cost."""
    every = [*seen.lines, *filter(None, [seen.unallocated])]
    if all(line.end for line in every):
        return seen
    rates = run_rate.run_rates(now)
    fleet, *teams = (_with_run_rate(line, [rates.get(line.key)]) for line in seen.lines)
    nobodys = [rates.get(key) for key in NO_TEAMS]
    unallocated = seen.unallocated and _with_run_rate(seen.unallocated, nobodys)
    return replace(seen, lines=[fleet, *sorted(teams, key=_pressing)], unallocated=unallocated)


def _with_run_rate(line: BudgetLine, rates: Sequence[RunRate | None]) -> BudgetLine:
    return line if line.end else replace(line, run_rate=run_rate.together(rates))


def _lines(
    groups: Sequence[Group],
    limits: Mapping[str, Limit],
    month: Month,
    since: datetime | None,
) -> list[BudgetLine]:
    """A line for each team, and for what is none's."""
    forecasts = outlooks.all_of("team")
    spent = {group.key: group.totals for group in groups}
    return [
        _line(
            (key, label),
            spent.get(key, nothing()),
            limits.get(key),
            forecasts.get(key),
            month,
            since,
        )
        for key, label in _labels(groups, {*limits, *forecasts}).items()
    ]


def _unallocated(lines: Sequence[BudgetLine]) -> BudgetLine | None:
    """What no job held and what jobs without a team did as one line; without a forecast where one
    of them has none.
    """
    if not lines:
        return None
    ends = [line.end for line in lines if line.end is not None]
    return BudgetLine(
        key=UNALLOCATED,
        label="No team",
        spent_usd=exact_sum(line.spent_usd for line in lines),
        wasted_usd=exact_sum(line.wasted_usd for line in lines),
        unpriced_ms=sum(line.unpriced_ms for line in lines),
        limit=None,
        end=month_end.together(ends) if len(ends) == len(lines) else None,
        reason=next((line.reason for line in lines if line.end is None), ""),
        tried=[],
        recorded_since=lines[0].recorded_since,
    )


def line(team: Team | None, now: datetime, *, spent: Totals | None = None) -> BudgetLine:
    """One team's month, or the fleet's; `spent`: what was spent of it so far, where it was read
    already.
    """
    month = running_month(now)
    if spent is None:
        scope = Scope() if team is None else Scope(team=team.slug)
        spent = nothing() if month.so_far is None else costs.totals(month.so_far, scope=scope)
    forecasts = outlooks.all_of("fleet" if team is None else "team")
    name = FLEET_NAME if team is None else (team.slug, team.label)
    return _line(
        name,
        spent,
        budgets.limit(budgets.history(team), month.first),
        forecasts.get(name[0]),
        month,
        costs.not_recorded_before(month.whole.start, now),
    )


def line_or_run_rate(team: Team | None, now: datetime) -> BudgetLine:
    """The same; without a forecast with what the last days cost."""
    made = line(team, now)
    return made if made.end else replace(made, run_rate=run_rate.run_rate(team, now))


def days_so_far(team: Team | None, now: datetime) -> list[Bucket]:
    """The month's days as far as they are known, in dollars."""
    month = running_month(now)
    scope = Scope() if team is None else Scope(team=team.slug)
    return [] if month.so_far is None else costs.dollars_over_time(month.so_far, "day", scope=scope)


def closest_trial(line: BudgetLine, now: datetime) -> Tried | None:
    """The back-tested error for about as many days ahead as are left of the month; None where
    nothing was tried.
    """
    rest = running_month(now).rest
    days_left = 0.0 if rest is None else (rest.end - rest.start) / timedelta(days=1)
    return min(line.tried, key=lambda each: abs(each.days - days_left), default=None)


def past_months(team: Team | None, now: datetime) -> list[Past]:
    """The months before this one of which hours are kept whole, with the budget that counted; the
    newest first.
    """
    kind, key = ("fleet", "") if team is None else ("team", team.slug)
    organisation_zone = zone()
    days = SpendDay.objects.filter(kind=kind)
    spent = _by_month(days.filter(key=key), organisation_zone)
    oldest = days.aggregate(oldest=Min("start"))["oldest"]
    rows = list(budgets.history(team))
    running = calendar.month_of(now, organisation_zone)
    return [
        Past(first, usd, budgets.usd_of(budgets.counting(rows, first), first))
        for first, usd in sorted(spent.items(), reverse=True)
        if first < running and calendar.month(first, organisation_zone).start >= oldest
    ]


def _by_month(days: QuerySet[SpendDay], organisation_zone: ZoneInfo) -> dict[date, Decimal]:
    """Dollars by the first day of their month."""
    spent: dict[date, Decimal] = defaultdict(Decimal)
    for start, usd in days.values_list("start", "usd"):
        spent[calendar.month_of(start, organisation_zone)] += usd
    return spent


def _line(
    name: tuple[str, str],
    spent: Totals,
    limit: Limit | None,
    outlook: Outlook | None,
    month: Month,
    since: datetime | None,
) -> BudgetLine:
    budget_usd = None if limit is None else limit.usd
    end = outlooks.until_month_end(outlook, month.rest, spent.cost_usd, budget_usd=budget_usd)
    return BudgetLine(
        *name,
        spent.cost_usd,
        spent.wasted_usd,
        spent.unpriced_ms,
        limit,
        end,
        outlooks.reason(outlook, spent.cost_usd, end),
        outlooks.tried(outlook),
        since,
    )


def _labels(groups: Iterable[Group], slugs: Set[str]) -> dict[str, str]:
    """Names of these teams, and of those that have a budget or a forecast."""
    teams = Team.objects.filter(slug__in=slugs - {WHOLE_FLEET}).values_list("slug", "name")
    labels = {slug: name or slug for slug, name in teams}
    return labels | {group.key: group.label for group in groups}


def _pressing(line: BudgetLine) -> tuple[int, float, Decimal, str]:
    """By risk, then by how much of the budget is expected to go, at the run rate where that is all
    there is, then by dollars.
    """
    return (
        month_end.RISKS.index(line.risk),
        -(line.forecast_share or float(line.run_rate_share or 0)),
        -line.spent_usd,
        line.key,
    )
