"""Totals as the answers' figures.

Pure; money becomes a number here, after it was rounded to the micro-dollar.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Decimal
from functools import partial

from fleetwatch.api.answer_types import Answer, Joined, gpu_hours
from fleetwatch.figures.pricing import EXACT, MICRO_USD, lines, usd
from fleetwatch.figures.ranking import Ranked
from fleetwatch.figures.totals import HEADLINE_TIERS, ZERO, Totals
from fleetwatch.ledger.policy import STATES, TIERS

FAR_BEHIND = Decimal("1e-20")

Dollars = Callable[[Totals], Decimal]


def figures(totals: Totals) -> Joined:
    """One total on its own."""
    return rows_of_figures([totals])[0]


def rows_of_figures(rows: Sequence[Totals]) -> list[Joined]:
    """The rows of one breakdown: their dollars and wasted dollars sum to those of the whole, to the
    micro-dollar.
    """
    return _rows(rows, lambda dollars: lines([dollars(totals) for totals in rows]))


def rows_of_ranked(page: Ranked) -> list[Joined]:
    """The rows of one page: those of all pages sum to the whole, to the micro-dollar, whoever asks
    for which.
    """
    return _rows([group.totals for group in page.groups], partial(_lines, page))


def _rows(rows: Sequence[Totals], rounded: Callable[[Dollars], list[Decimal]]) -> list[Joined]:
    """`rounded`: dollars of all rows, so that they sum to their total."""
    costs = rounded(lambda totals: totals.cost_usd)
    waste = [rounded(partial(_wasted, tier=tier)) for tier in TIERS]
    return [
        _row(totals, cost, dict(zip(TIERS, wasted, strict=True)))
        for totals, cost, *wasted in zip(rows, costs, *waste, strict=True)
    ]


def _wasted(totals: Totals, tier: str) -> Decimal:
    return totals.waste_usd[tier]


def _lines(page: Ranked, dollars: Dollars) -> list[Decimal]:
    """The page's amounts: they sum to what lies between the whole micro-dollars up to its first row
    and up to its last.
    """
    amounts = [dollars(group.totals) for group in page.groups]
    before = dollars(page.before.totals)
    through = _whole(sum(amounts, before)) if page.after.groups else usd(dollars(page.totals))
    return lines(amounts, total=through - _whole(before))


def _whole(amount: Decimal) -> Decimal:
    """Whole micro-dollars, rounded down; a digit that a division cut off far behind them is no
    micro-dollar less.
    """
    return amount.quantize(FAR_BEHIND, context=EXACT).quantize(MICRO_USD, rounding=ROUND_FLOOR)


def _row(totals: Totals, cost_usd: Decimal, waste_usd: dict[str, Decimal]) -> Joined:
    parts = lines([totals.cost_by_state[state] for state in STATES], total=cost_usd)
    states = {state: float(part) for state, part in zip(STATES, parts, strict=True)}
    cost = {"total": float(cost_usd), "states": states}
    return Joined(totals, cost_usd=cost, waste=_waste(totals, waste_usd))


def _waste(totals: Totals, waste_usd: dict[str, Decimal]) -> dict[str, Answer]:
    wasted_usd = sum((waste_usd[tier] for tier in HEADLINE_TIERS), ZERO)
    unobserved_usd = usd(totals.cost_by_state["unobserved"])
    unobserved_ms = totals.states["unobserved"]
    return {
        **{tier: tier_row(totals.waste_ms[tier], waste_usd[tier]) for tier in TIERS},
        "wasted": tier_row(totals.wasted_ms, wasted_usd),
        "wasted_at_most": tier_row(totals.wasted_ms + unobserved_ms, wasted_usd + unobserved_usd),
    }


def tier_row(gpu_ms: int, amount: Decimal) -> Answer:
    """Time and dollars of one tier."""
    return {"gpu_hours": gpu_hours(gpu_ms), "usd": float(usd(amount))}
