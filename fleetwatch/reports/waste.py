"""The waste report: lines of a breakdown that sum to their total, and the same as CSV. Pure."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import Group, Totals
from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.lib.formulas import defused
from fleetwatch.lib.intervals import Interval

GROUPS = ("team", "project", "cost_centre", "user", "job", "node", "gpu_model", "cause")
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class WasteReport:
    """Who wasted what over `interval`; most wasted dollars first, lines sum to `total`."""

    interval: Interval
    group_by: str
    lines: tuple[Group, ...]
    total: Totals


def to_csv(report: WasteReport) -> str:
    """The report as CSV (RFC 4180), units in the head, one line per group, micro-dollars that sum
    to their total.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head(report.group_by))
    writer.writerows(_cells(report))
    return out.getvalue()


def head(group_by: str) -> list[str]:
    """The names of the columns."""
    return [
        "from_utc", "to_utc", group_by, "label", "capacity_gpu_hours",
        *(f"{state}_gpu_hours" for state in STATES),
        *(f"waste_{tier}_gpu_hours" for tier in TIERS),
        "cost_usd",
        *(f"waste_{tier}_usd" for tier in TIERS),
        "wasted_usd", "wasted_share_of_observed", "spend_efficiency", "coverage",
        "unpriced_gpu_hours", "has_example_rates",
        # a part of the useful ones, of which utilisation alone tells, and of cost_usd
        "busy_unverified_gpu_hours", "busy_unverified_usd",
    ]  # fmt: skip


def _cells(report: WasteReport) -> list[list[str]]:
    period = [
        f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (report.interval.start, report.interval.end)
    ]
    every = [group.totals for group in report.lines]
    cost = pricing.lines([totals.cost_usd for totals in every])
    unverified = pricing.lines([totals.busy_only_usd for totals in every])
    tiers = [pricing.lines([totals.waste_usd[tier] for totals in every]) for tier in TIERS]
    usd = zip(cost, unverified, zip(*tiers, strict=True), strict=True)
    return [
        [*period, defused(group.key), defused(group.label), *_line(group.totals, *amounts)]
        for group, amounts in zip(report.lines, usd, strict=True)
    ]


def _line(
    totals: Totals, cost: Decimal, unverified: Decimal, waste: tuple[Decimal, ...]
) -> list[str]:
    certain, probable, _ = waste
    return [
        _hours(totals.capacity_ms),
        *(_hours(totals.states[state]) for state in STATES),
        *(_hours(totals.waste_ms[tier]) for tier in TIERS),
        *(f"{amount:f}" for amount in (cost, *waste, certain + probable)),
        *_ratios((totals.wasted_share_of_observed, totals.spend_efficiency, totals.coverage)),
        _hours(totals.unpriced_ms),
        "yes" if totals.has_example_rates else "no",
        _hours(totals.busy_only_ms),
        f"{unverified:f}",
    ]


def _hours(gpu_ms: int) -> str:
    """GPU-hours with six digits, rounded half to even; time is never below 0.

    In whole numbers: a month has 700,000 such cells.
    """
    micro, over = divmod(gpu_ms * MICRO, pricing.HOUR_MS)
    micro += 2 * over > pricing.HOUR_MS or (2 * over == pricing.HOUR_MS and micro % 2 == 1)
    return f"{micro // MICRO}.{micro % MICRO:06d}"


def _ratios(values: Sequence[float | None]) -> list[str]:
    """Ratios of 0 to 1; unknown is an empty cell, never 0."""
    return ["" if value is None else f"{value:.6f}" for value in values]
