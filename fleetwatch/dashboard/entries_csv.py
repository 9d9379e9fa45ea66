"""Entries of the ledger behind a figure as CSV: what /explain shows, exact. Pure."""

from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal

from fleetwatch.costs.priced import Priced
from fleetwatch.dashboard.entry_words import why
from fleetwatch.dashboard.shown_states import shown_state
from fleetwatch.figures import pricing
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports.exports.files import written

COLUMNS = (
    *("hour_utc", "gpu", "job", "state", "tier", "why", "policy", "gpu_hours"),
    *("usd_per_gpu_hour", "cost_usd"),
)


def to_csv(lines: Sequence[Priced]) -> str:
    """RFC 4180, a line for each entry, dollars as the product is, to the micro-dollar; empty where
    no rate held.
    """
    return written(COLUMNS, map(_cells, lines))


def _cells(line: Priced) -> list[str]:
    row = line.row
    return [
        f"{row.start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        defused(row.gpu.uuid),
        defused(row.job.key) if row.job else "",
        shown_state(row),
        row.tier,
        why(row),
        str(row.policy.version),
        f"{row.gpu_ms / HOUR_MS:.6f}",
        _amount(line.rate.usd_per_gpu_hour if line.rate else None),
        _amount(line.usd),
    ]


def _amount(usd: Decimal | None) -> str:
    return "" if usd is None else f"{pricing.usd(usd):f}"
