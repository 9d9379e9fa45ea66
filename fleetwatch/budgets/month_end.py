"""A month at its end: what was spent, what is still to come with its range, and when a budget is
passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from zoneinfo import ZoneInfo

from fleetwatch.budgets.calendar import cuts_of
from fleetwatch.budgets.forecast import LONGEST, WEEK
from fleetwatch.budgets.models import Outlook
from fleetwatch.figures import boundaries
from fleetwatch.lib.intervals import Interval

OVER = "over"
WILL_EXCEED = "will pass"
MAY_EXCEED = "may pass"
PARTIAL = "partial month"  # recorded in part: what went before is not known
WITHIN = "within"
UNKNOWN = "not known"
NO_BUDGET = "no budget"
# of a range: what is expected stands at its end where forecasts were off to one side
EDGE = 0.15
SKEW = 2.0  # times as far on one side of what is expected: no mean error tells such a range
RISKS = (OVER, WILL_EXCEED, MAY_EXCEED, PARTIAL, UNKNOWN, WITHIN, NO_BUDGET)  # most pressing first


@dataclass(frozen=True, slots=True)
class Step:
    """What is expected to have been spent by `until`, in the middle and at the ends of the
    range.
    """

    until: datetime
    expected_usd: float
    low_usd: float
    high_usd: float

    @property
    def leans(self) -> str:
        """Where earlier forecasts were off to nearly always: "more" or "less" came than they said;
        "" where it went both ways.
        """
        edge = EDGE * (self.high_usd - self.low_usd)
        if self.expected_usd - self.low_usd < edge:
            return "more"
        return "less" if self.high_usd - self.expected_usd < edge else ""

    @property
    def skew(self) -> str:
        """Where the range reaches much further: "up" or "down"; "" where it is about even."""
        up = self.high_usd - self.expected_usd
        down = self.expected_usd - self.low_usd
        if up > SKEW * down:
            return "up"
        return "down" if down > SKEW * up else ""


@dataclass(frozen=True, slots=True)
class MonthEnd:
    """The rest of a month from its first hour that is not known yet on, by days; the last step is
    the month's end.
    """

    steps: tuple[Step, ...]
    # when the budget is passed at the expected rate, None = not in this month
    passes_at: datetime | None
    may_pass_at: datetime | None  # and when at the upper end of the range

    @property
    def end(self) -> Step:
        return self.steps[-1]


def together(ends: Sequence[MonthEnd]) -> MonthEnd | None:
    """The ends of the same month as one, ranges added up; None of none."""
    if not ends:
        return None
    every_day = zip(*(each.steps for each in ends), strict=True)
    return MonthEnd(tuple(map(_sum_of, every_day)), None, None)


def _sum_of(steps: Sequence[Step]) -> Step:
    return Step(
        steps[0].until,
        sum(step.expected_usd for step in steps),
        sum(step.low_usd for step in steps),
        sum(step.high_usd for step in steps),
    )


def predict(
    outlook: Outlook,
    rest: Interval,
    spent_usd: Decimal,
    *,
    budget_usd: Decimal | None,
    zone: ZoneInfo,
) -> MonthEnd:
    """The rest of the month [rest.start, rest.end), after what was spent before."""
    spent = float(spent_usd)
    moments, coming = _hours(outlook, rest, zone)
    ranges = [_relative(outlook, moment, rest.start) for moment in moments]
    high = [usd * (1 + up) for usd, (_, up) in zip(coming, ranges, strict=True)]
    steps = tuple(
        Step(moment, spent + usd, spent + max(usd * (1 + low), 0.0), spent + high_usd)
        for moment, usd, high_usd, (low, _) in zip(moments, coming, high, ranges, strict=True)
        if moment in (boundaries.midnight(moment, zone), rest.end)
    )
    return MonthEnd(
        steps,
        _passing(moments, coming, spent, budget_usd),
        _passing(moments, high, spent, budget_usd),
    )


def risk(
    spent_usd: Decimal, budget_usd: Decimal | None, end: Step | None, *, is_partial: bool = False
) -> str:
    """One of RISKS. A month that `is_partial`, recorded in part, is never within its budget."""
    if budget_usd is None:
        return NO_BUDGET
    if spent_usd > budget_usd:
        return OVER
    if end is not None and end.high_usd > float(budget_usd):
        return WILL_EXCEED if end.expected_usd > float(budget_usd) else MAY_EXCEED
    if is_partial:
        return PARTIAL
    return UNKNOWN if end is None else WITHIN


def _hours(outlook: Outlook, rest: Interval, zone: ZoneInfo) -> tuple[list[datetime], list[float]]:
    """The end of every cut of the rest, and the dollars up to it."""
    first = boundaries.midnight(outlook.origin, zone)
    moments = []
    amounts = []
    for day in boundaries.days(rest, zone):
        # dates, not durations: days have 23 to 25 hours
        place = (day.start.astimezone(zone).date() - first.astimezone(zone).date()).days % WEEK
        for cut in cuts_of(day, zone):
            if rest.start < cut.interval.end <= rest.end:
                share_h = (cut.interval.end - max(cut.interval.start, rest.start)) / timedelta(
                    hours=1
                )
                moments.append(cut.interval.end)
                amounts.append(outlook.usd_per_hour[place][cut.hour] * share_h)
    return moments, list(accumulate(amounts))


def _relative(outlook: Outlook, moment: datetime, start: datetime) -> tuple[float, float]:
    """The range of what comes from start to the moment: that of as many whole days, rounded up."""
    ahead = max(1, -(-(moment - start) // timedelta(days=1)))
    place = min(ahead, LONGEST) - 1
    return outlook.low[place], outlook.high[place]


def _passing(
    moments: Sequence[datetime], coming: Sequence[float], spent: float, budget_usd: Decimal | None
) -> datetime | None:
    if budget_usd is None or spent > (budget := float(budget_usd)):
        return None
    return next(
        (moment for moment, usd in zip(moments, coming, strict=True) if spent + usd > budget), None
    )
