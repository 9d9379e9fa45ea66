"""Whether the lines of a month are expected to come to what the fleet's own is."""

from fleetwatch.budgets.selectors import BudgetLine, MonthLines
from fleetwatch.dashboard import numbers


def forecast_apart(seen: MonthLines) -> float | None:
    """What the teams' lines and that of no team are expected to come to, at the run rate where
    there is no forecast; None where it reads as the fleet's own does, or is not known of all.
    """
    fleet, *teams = seen.lines
    amounts_usd = [_expected_usd(line) for line in filter(None, [*teams, seen.unallocated])]
    known_usd = [usd for usd in amounts_usd if usd is not None]
    if fleet.end is None or len(known_usd) < len(amounts_usd):
        return None
    together_usd = sum(known_usd)
    is_same = numbers.about(together_usd) == numbers.about(fleet.end.end.expected_usd)
    return None if is_same else together_usd


def _expected_usd(line: BudgetLine) -> float | None:
    if line.end is not None:
        return line.end.end.expected_usd
    return None if line.at_run_rate_usd is None else float(line.at_run_rate_usd)
