"""What GPUs cost by contract instead of at the rates, over a period."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.accounts.visibility import narrowed
from fleetwatch.costs.models import Commitment
from fleetwatch.dashboard.period import Period
from fleetwatch.figures import pricing
from fleetwatch.figures.pricing import CENT, exact_sum
from fleetwatch.figures.totals import Totals
from fleetwatch.finance.commitments import Coverage, coverage
from fleetwatch.finance.coverage import Above, Covered, missing_usd
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour
from fleetwatch.reports.printed import apportioned

ABOVE = "Above commitment"
AT_RATES = "at the rates"
REST = "other GPUs, and hours that had begun"


@dataclass(frozen=True, slots=True)
class Contracts:
    """The commitments of a period's whole hours, and what stood above them by GPU model; `hours` is
    how many those are, where the period is longer.
    """

    lines: Sequence[tuple[Commitment, Covered]]
    above: Sequence[Above]
    hours: int | None = None


@dataclass(frozen=True, slots=True)
class ContractRow:
    """What was there of a commitment, above the commitments of a GPU model, or of neither: `of` is
    what of it was used, unallocated and missing (None: no commitment's). Dollars are cents that sum
    to those of the whole.
    """

    name: str
    note: str
    there_ms: int
    of: Covered | None
    due_usd: Decimal
    rates_usd: Decimal


@dataclass(frozen=True, slots=True)
class ContractCosts:
    """`usd`: committed GPUs that were there at their contract's price, all others at the rates;
    `missing_usd` is due for committed ones that were not there, and is in no ledger. `hours`:
    only so many are compared with the contracts (None: all), the others are at the rates.
    """

    rows: Sequence[ContractRow]
    usd: Decimal
    missing_usd: Decimal
    hours: int | None = None

    @property
    def due_usd(self) -> Decimal:
        return self.usd + self.missing_usd


def contracts(period: Period, filters: Mapping[str, str]) -> Contracts | None:
    """Of all GPUs, or of the model that the filters name.

    None: nothing was committed of them, or what is asked for is less than the fleet's, whose the
    contracts are.
    """
    if narrowed() is not None or filters.keys() - {"gpu_model"}:
        return None
    first = ceil_hour(period.so_far.start)  # what began before is no whole hour of the period
    if first >= period.so_far.end:
        return None
    model = filters.get("gpu_model")
    covered = coverage(Interval(first, period.so_far.end), now=period.now)
    lines = [line for line in covered.lines if model in (None, line[0].gpu_model.name)]
    above = [each for each in covered.above if model in (None, each.gpu_model)]
    return Contracts(lines, above, _fewer_hours(covered, period.so_far)) if lines else None


def _fewer_hours(covered: Coverage, asked: Interval) -> int | None:
    """How many hours commitments were looked at; None where it is all that was asked for."""
    if covered.interval is None or covered.interval.duration_ms >= asked.duration_ms:
        return None
    return covered.interval.duration_ms // HOUR_MS


def contract_costs(of: Contracts | None, totals: Totals) -> ContractCosts | None:
    """The same in dollars beside what all of it cost at the rates; None without a contract."""
    if of is None:
        return None
    covered = [line for _, line in of.lines]
    usd = totals.cost_usd + exact_sum(line.rate_book_differs_usd for line in covered)
    missing = missing_usd(covered)
    rows = _rows(of, totals)
    due = apportioned([row.due_usd for row in rows], pricing.usd(usd + missing, CENT))
    at_rates = apportioned([row.rates_usd for row in rows], pricing.usd(totals.cost_usd, CENT))
    printed = [
        replace(row, due_usd=due_usd, rates_usd=rates_usd)
        for row, due_usd, rates_usd in zip(rows, due, at_rates, strict=True)
    ]
    return ContractCosts(printed, usd, missing, of.hours)


def _rows(of: Contracts, totals: Totals) -> list[ContractRow]:
    """Exact: the commitments, what stood above them, and the rest where there is any."""
    committed = [
        ContractRow(
            each.name,
            f"{each.gpus:,} {each.gpu_model.name}",
            line.covered_ms,
            line,
            line.committed_usd,
            line.rate_book_usd,
        )
        for each, line in of.lines
    ]
    above = [
        ContractRow(ABOVE, f"{each.gpu_model}, {AT_RATES}", each.gpu_ms, None, *[each.cost_usd] * 2)
        for each in of.above
    ]
    rows = [*committed, *above]
    rest_ms = totals.capacity_ms - sum(row.there_ms for row in rows)
    rest_usd = totals.cost_usd - exact_sum(row.rates_usd for row in rows)
    rest = ContractRow("No contract", f"{REST}, {AT_RATES}", rest_ms, None, rest_usd, rest_usd)
    return [*rows, rest] if rest_ms else rows
