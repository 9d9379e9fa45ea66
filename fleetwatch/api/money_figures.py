"""Totals as the answers' figures.

Pure; money becomes a number here, after it was rounded to the micro-dollar.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from operator import attrgetter
from typing import Any

from fleetwatch.api.answer_types import Joined, gpu_hours
from fleetwatch.figures.pricing import EXACT, MICRO_USD, lines, usd
from fleetwatch.figures.ranking import Ranked
from fleetwatch.figures.totals import HEADLINE_TIERS, Totals
from fleetwatch.ledger.policy import STATES, TIERS

Shape = dict[str, Any]
FAR_BEHIND = Decimal("1e-20")


@dataclass(frozen=True, slots=True)
class _Rounded:
    """Dollars of one row, already rounded so that all rows sum to their total."""

    cost_usd: Decimal
    waste_usd: dict[str, Decimal]


def figures(totals: Totals) -> Joined:
    """One total on its own."""
    return _row(
        totals,
        _Rounded(usd(totals.cost_usd), {tier: usd(totals.waste_usd[tier]) for tier in TIERS}),
    )


def rows_of_figures(rows: Sequence[Totals]) -> list[Joined]:
    """The rows of one breakdown: their dollars and wasted dollars sum to those of the whole, to the
    micro-dollar.
    """
    costs = lines([row.cost_usd for row in rows])
    waste = {tier: lines([row.waste_usd[tier] for row in rows]) for tier in TIERS}
    return [
        _row(row, _Rounded(costs[i], {tier: waste[tier][i] for tier in TIERS}))
        for i, row in enumerate(rows)
    ]


def rows_of_ranked(page: Ranked) -> list[Joined]:
    """The rows of one page: those of all pages sum to the whole, to the micro-dollar, whoever asks
    for which.
    """
    costs = _lines(page, attrgetter("cost_usd"))
    waste = {tier: _lines(page, _wasted(tier)) for tier in TIERS}
    rounded = [
        _Rounded(cost, {tier: waste[tier][i] for tier in TIERS}) for i, cost in enumerate(costs)
    ]
    return [
        _row(group.totals, dollars) for group, dollars in zip(page.groups, rounded, strict=True)
    ]


def _wasted(tier: str) -> Callable[[Totals], Decimal]:
    return lambda totals: totals.waste_usd[tier]


def _lines(page: Ranked, dollars: Callable[[Totals], Decimal]) -> list[Decimal]:
    """The page's amounts: they sum to what lies between the whole micro-dollars up to its first row
    and up to its last.
    """
    amounts, before = [dollars(group.totals) for group in page.groups], dollars(page.before.totals)
    through = _whole(sum(amounts, before)) if page.after.groups else usd(dollars(page.totals))
    return lines(amounts, total=through - _whole(before))


def _whole(amount: Decimal) -> Decimal:
    """Whole micro-dollars, rounded down; a digit that a division cut off far behind them is no
    micro-dollar less.
    """
    return amount.quantize(FAR_BEHIND, context=EXACT).quantize(MICRO_USD, rounding=ROUND_FLOOR)


def _row(totals: Totals, rounded: _Rounded) -> Joined:
    cost = {
        "total": float(rounded.cost_usd),
        "states": _cost_by_state(totals, rounded.cost_usd),
    }
    return Joined({"cost_usd": cost, "waste": _waste(totals, rounded.waste_usd)}, totals)


def _cost_by_state(totals: Totals, total: Decimal) -> dict[str, float]:
    parts = lines([totals.cost_by_state[state] for state in STATES], total=total)
    return {state: float(part) for state, part in zip(STATES, parts, strict=True)}


def _waste(totals: Totals, waste_usd: dict[str, Decimal]) -> Shape:
    tiers = {
        tier: {"gpu_hours": gpu_hours(totals.waste_ms[tier]), "usd": float(waste_usd[tier])}
        for tier in TIERS
    }
    wasted_usd = sum((waste_usd[tier] for tier in HEADLINE_TIERS), Decimal(0))
    unobserved_usd = usd(totals.cost_by_state["unobserved"])
    return tiers | {
        "wasted": {"gpu_hours": gpu_hours(totals.wasted_ms), "usd": float(wasted_usd)},
        "wasted_at_most": {
            "gpu_hours": gpu_hours(totals.wasted_ms + totals.states["unobserved"]),
            "usd": float(wasted_usd + unobserved_usd),
        },
    }
