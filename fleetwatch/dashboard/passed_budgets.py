"""A budget that is passed, or is expected to be: when, what drives it, and its incidents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetwatch.alerts.measuring.budget_months import budget_months, subject_of
from fleetwatch.alerts.models import Incident
from fleetwatch.budgets.selectors import BudgetLine, Month
from fleetwatch.dashboard.budget_alerts import BudgetAlert
from fleetwatch.dashboard.budget_drivers import Drivers, drivers_in
from fleetwatch.lib.intervals import from_ms


@dataclass(frozen=True, slots=True)
class Passed:
    """`at` is when so much was spent, `expected_at` when it will be, by the forecast or
    (`is_run_rate`) by the mean of the last days; None: it is not known.
    """

    is_over: bool
    at: datetime | None
    expected_at: datetime | None
    is_run_rate: bool
    drivers: Drivers | None
    incidents: list[Incident]


def passed(line: BudgetLine, month: Month, alerts: Sequence[BudgetAlert]) -> Passed | None:
    """None of a budget that is kept, as far as one knows."""
    is_over = line.share is not None and line.share > 1
    expected_at = None if is_over else _expected_at(line, month)
    if month.so_far is None or not (is_over or expected_at):
        return None
    return Passed(
        is_over,
        _passed_at(line, month) if is_over else None,
        expected_at,
        line.end is None,
        drivers_in(month.so_far, line.key),
        [each.incident for each in alerts if each.incident],
    )


def _passed_at(line: BudgetLine, month: Month) -> datetime | None:
    """To the hour; None where the hours are not counted yet."""
    start_ms = month.whole.start_ms
    for each in budget_months(start_ms, start_ms + 1):
        if each.subject == subject_of(line.key):
            reached_ms = each.spending.reached_ms(each.usd)
            return None if reached_ms is None else from_ms(reached_ms)
    return None


def _expected_at(line: BudgetLine, month: Month) -> datetime | None:
    if line.end is not None:
        return line.end.passes_at
    if line.run_rate is None or line.budget_usd is None or month.rest is None:
        return None
    if not line.run_rate.usd_per_day:
        return None
    days = (line.budget_usd - line.spent_usd) / line.run_rate.usd_per_day
    if days >= line.run_rate.days_left:
        return None
    return month.rest.start + timedelta(days=float(days))
