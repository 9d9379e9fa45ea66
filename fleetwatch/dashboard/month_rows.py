"""A month's statements as rows that sum to the fleet's report, to the cent."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fleetwatch.figures import pricing
from fleetwatch.figures.comparison import Change
from fleetwatch.reports import printed
from fleetwatch.reports.statement import amount_or_none
from fleetwatch.reports.team_months import TeamLine


@dataclass(frozen=True, slots=True)
class MonthRow:
    """What a team (`line`), no team or the fleet (None) had. `wasted_usd` and `before_usd`, what
    these days of the month before cost, are None where no report says it.
    """

    cost_usd: Decimal
    wasted_usd: Decimal | None
    before_usd: Decimal | None
    line: TeamLine | None = None

    @property
    def change(self) -> Change:
        return Change("", self.cost_usd, self.before_usd)


def month_rows(fleet: Any, statements: Sequence[TeamLine]) -> dict[str, Any]:
    """The statements, what no team had, and the fleet's report, annotated with selectors.SAID and
    its `own_lines`.
    """
    rows = [MonthRow(line.cost_usd, line.wasted_usd, line.before_usd, line) for line in statements]
    printed_usd = _printed_waste(fleet, rows)
    wasted_usd = amount_or_none(fleet.wasted) if printed_usd is None else printed_usd
    whole = MonthRow(fleet.cost_usd, wasted_usd, amount_or_none(fleet.before))
    return {
        "statements": rows,
        "no_team": _rest(whole, rows),
        "fleet": whole,
        "is_compared": whole.before_usd is not None,
    }


def _printed_waste(fleet: Any, rows: Sequence[MonthRow]) -> Decimal | None:
    """What the fleet's report prints as wasted: what these statements and its own lines do, added
    up; None where they are of other versions than it, or one of them does not say it.
    """
    wasted = [row.wasted_usd for row in rows if row.wasted_usd is not None]
    if fleet.wasted is None or fleet.own_lines is None or len(wasted) < len(rows):
        return None
    costs = [row.cost_usd for row in rows]
    own = printed.own_waste(costs, fleet.own_lines, pricing.usd(fleet.cost_usd, pricing.CENT))
    shown = pricing.exact_sum([*own.values(), *(pricing.usd(usd, pricing.CENT) for usd in wasted)])
    rounded_by = abs(shown - Decimal(fleet.wasted))
    is_of_these = rounded_by <= pricing.CENT * (len(rows) + len(fleet.own_lines))
    return shown if is_of_these else None


def _rest(whole: MonthRow, rows: Sequence[MonthRow]) -> MonthRow:
    """What no team had, as printed, so that the printed lines sum to the fleet's."""
    is_judged = whole.wasted_usd is not None and all(row.wasted_usd is not None for row in rows)
    return MonthRow(
        _rest_of_cents(whole, rows, "cost_usd"),
        _rest_of_cents(whole, rows, "wasted_usd") if is_judged else None,
        _less(whole.before_usd, [row.before_usd for row in rows]),
    )


def _rest_of_cents(whole: MonthRow, rows: Sequence[MonthRow], name: str) -> Decimal:
    return printed.cents_of([whole], name) - printed.cents_of(rows, name)


def _less(whole: Decimal | None, parts: Sequence[Decimal | None]) -> Decimal | None:
    """What the parts leave of the whole; None where one of them is not known."""
    together = pricing.sum_if_all_known(parts)
    return None if whole is None or together is None else whole - together
