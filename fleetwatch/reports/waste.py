"""The waste report: lines of a breakdown that sum to their total, and the same as CSV. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import ZERO, Group, Totals, nothing
from fleetwatch.ledger.policy import TIERS
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.reports.exports.files import written
from fleetwatch.reports.exports.tables import OF_STATES, OF_TIERS

GROUPS = ("team", "project", "cost_centre", "user", "job", "node", "gpu_model", "cause")
RATIOS = ("wasted_share_of_observed", "spend_efficiency", "coverage")
MICRO = 1_000_000
AMOUNTS = ("cost_usd", "busy_only_usd", "waiting_usd")  # dollars that lines have beside tiers


@dataclass(frozen=True, slots=True)
class WasteReport:
    """Who wasted what over `interval`; most wasted dollars first, lines sum to `total`; and by key
    of a line what of its waste people agreed is none (None: nobody asked).
    """

    interval: Interval
    group_by: str
    lines: tuple[Group, ...]
    total: Totals
    agreed_usd: Mapping[str, Decimal] | None = None


def to_csv(report: WasteReport) -> str:
    """The report as CSV (RFC 4180), units in the head, one line per group, micro-dollars that sum
    to their total.
    """
    period = [f"{end:%Y-%m-%dT%H:%M:%SZ}" for end in (report.interval.start, report.interval.end)]
    rows = (
        [
            *period,
            defused(group.key),
            defused(group.label),
            *_cells(group.totals, *usd).values(),
            *_agreed(report, group.key).values(),
        ]
        for group, usd in zip(report.lines, _amounts(report), strict=True)
    )
    figures = (*_cells(nothing(), *[ZERO] * 6), *_agreed(report, ""))
    return written(("from_utc", "to_utc", report.group_by, "label", *figures), rows)


def _amounts(report: WasteReport) -> Iterable[tuple[Decimal, ...]]:
    """Of each line its AMOUNTS and its waste by tier, each column in micro-dollars that sum."""
    every = [group.totals for group in report.lines]
    columns_usd = (
        *([getattr(totals, name) for totals in every] for name in AMOUNTS),
        *([totals.waste_usd[tier] for totals in every] for tier in TIERS),
    )
    return zip(*map(pricing.lines, columns_usd), strict=True)


def _agreed(report: WasteReport, key: str) -> dict[str, str]:
    """The column of what is agreed of `wasted_usd`, where that was asked for."""
    if report.agreed_usd is None:
        return {}
    return {"agreed_not_waste_usd": f"{pricing.usd(report.agreed_usd.get(key, ZERO)):f}"}


def _cells(
    totals: Totals, cost: Decimal, unverified: Decimal, waiting: Decimal, *waste: Decimal
) -> dict[str, str]:
    """By column; `waste` by tier."""
    certain, probable, _ = waste
    shown = totals.shown_states
    return {
        "capacity_gpu_hours": _hours(totals.capacity_ms),
        **{column: _hours(shown[state]) for column, state in OF_STATES.items()},
        **{f"waste_{tier}_gpu_hours": _hours(totals.waste_ms[tier]) for tier in TIERS},
        "cost_usd": f"{cost:f}",
        **{column: f"{usd:f}" for column, usd in zip(OF_TIERS, waste, strict=True)},
        "wasted_usd": f"{certain + probable:f}",
        **{name: _ratio(getattr(totals, name)) for name in RATIOS},
        "unpriced_gpu_hours": _hours(totals.unpriced_ms),
        "has_example_rates": "yes" if totals.has_example_rates else "no",
        "busy_unverified_usd": f"{unverified:f}",
        "waiting_usd": f"{waiting:f}",
    }


def _hours(gpu_ms: int) -> str:
    """GPU-hours with six digits, rounded half to even; time is never below 0.

    In whole numbers: a month has 700,000 such cells.
    """
    micro, over = divmod(gpu_ms * MICRO, HOUR_MS)
    micro += 2 * over > HOUR_MS or (2 * over == HOUR_MS and micro % 2 == 1)
    return f"{micro // MICRO}.{micro % MICRO:06d}"


def _ratio(value: float | None) -> str:
    """A ratio of 0 to 1; unknown is an empty cell, never 0."""
    return "" if value is None else f"{value:.6f}"
