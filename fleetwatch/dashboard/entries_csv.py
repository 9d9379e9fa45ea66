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
    *("usd_per_gpu_hour", "cost_usd", "gpu_hours_in_period", "cost_usd_in_period"),
)


def to_csv(lines: Sequence[Priced], within_ms: Sequence[int]) -> str:
    """RFC 4180, a line for each entry, dollars as the product is, to the micro-dollar; empty where
    no rate held. `within_ms`: what of each lies in the period, which an entry may reach over.
    """
    return written(COLUMNS, map(_cells, lines, within_ms))


def _cells(line: Priced, within_ms: int) -> list[str]:
    row = line.row
    usd_per_hour = line.rate.usd_per_gpu_hour if line.rate else None
    return [
        f"{row.start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        defused(row.gpu.uuid),
        defused(row.job.key) if row.job else "",
        shown_state(row),
        row.tier,
        why(row),
        str(row.policy.version),
        f"{row.gpu_ms / HOUR_MS:.6f}",
        _amount(usd_per_hour),
        _amount(line.usd),
        f"{within_ms / HOUR_MS:.6f}",
        _amount(None if usd_per_hour is None else pricing.price([(within_ms, usd_per_hour)])),
    ]


def _amount(usd: Decimal | None) -> str:
    return "" if usd is None else f"{pricing.usd(usd):f}"
