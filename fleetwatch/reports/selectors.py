"""Reads of reports."""

from fleetwatch.costs import selectors as costs
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.models import Report
from fleetwatch.reports.waste import GROUPS, WasteReport


def waste_rows(interval: Interval, group_by: str) -> WasteReport:
    """The waste report of covered(interval) by team, user or job. Raises ValueError for another group_by."""
    if group_by not in GROUPS:
        raise ValueError(f"can't report by {group_by!r}; there is {', '.join(GROUPS)}")
    lines = tuple(costs.totals_by(interval, group_by))
    return WasteReport(costs.covered(interval), group_by, lines, costs.totals(interval))


def reports(limit: int) -> list[Report]:
    """The newest computed reports."""
    return list(Report.objects.order_by("-end", "-pk")[:limit])
