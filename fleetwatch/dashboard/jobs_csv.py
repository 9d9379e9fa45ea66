"""The table of jobs as CSV: what the page shows, exact. Pure."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from fleetwatch.dashboard.job_lines import JobLine
from fleetwatch.figures import pricing
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.reports.exports.files import written

COLUMNS = (
    *("from_utc", "to_utc", "job", "name", "user", "team", "state", "gpus"),
    *("started_utc", "ended_utc", "duration_s", "duration_in_period_s", "active_ratio"),
    *("memory_peak_bytes", "likely_cause", "gpu_hours", "cost_usd", "wasted_usd"),
    *("wasted_share_of_cost", "unpriced_gpu_hours"),
)


def to_csv(lines: Sequence[JobLine], interval: Interval) -> str:
    """RFC 4180, units in the head, a line for each job; what is not known is an empty cell."""
    period = [_moment(interval.start), _moment(interval.end)]
    return written(COLUMNS, ([*period, *_cells(line)] for line in lines))


def _cells(line: JobLine) -> list[str]:
    totals = line.group.totals
    return [
        *_said_of(line),
        _seconds(line.lasted_ms),
        _seconds(line.inside_ms),
        _ratio(line.signals.active),
        "" if line.signals.memory_bytes is None else f"{line.signals.memory_bytes:.0f}",
        line.why,
        f"{totals.capacity_ms / HOUR_MS:.6f}",
        f"{pricing.usd(totals.cost_usd):f}",
        f"{pricing.usd(totals.wasted_usd):f}",
        _ratio(totals.wasted_share_of_cost),
        f"{totals.unpriced_ms / HOUR_MS:.6f}",
    ]


def _said_of(line: JobLine) -> list[str]:
    """What its scheduler says of it: of a job whose row is gone its key alone."""
    job = line.job
    gpus = "" if line.gpus is None else str(line.gpus)
    if job is None:
        return [defused(line.group.key), defused(line.group.label), "", "", "", gpus, "", ""]
    return [
        *map(defused, (line.group.key, job.name, job.user, job.team.slug if job.team else "")),
        job.state.lower(),
        gpus,
        _of_ms(job.start_ms),
        _of_ms(job.end_ms),
    ]


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _of_ms(ms: int | None) -> str:
    return "" if ms is None else _moment(from_ms(ms))


def _seconds(ms: int | None) -> str:
    return "" if ms is None else str(ms // 1000)


def _ratio(value: float | Decimal | None) -> str:
    return "" if value is None else f"{value:.6f}"
