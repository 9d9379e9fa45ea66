"""What causes took in a period, as priced columns: what every figure of findings is summed from.

Sums of days are read where they are as new as their causes, entries elsewhere; one reading is of one moment.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_
from pathlib import Path

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import cuts
from fleetwatch.costs.laid import Eras, eras, lay
from fleetwatch.costs.scopes import Limits, limits_of
from fleetwatch.costs.spans import Bools
from fleetwatch.costs.totals import EVERYTHING, Scope
from fleetwatch.diagnosis.columns import Columns, Spans, spans
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import one_view, read_statement

_CAUSED = read_statement(Path(__file__).parent / "sql" / "caused.sql")
_DAY = timedelta(days=1)


def read(
    interval: Interval,
    *,
    scope: Scope = EVERYTHING,
    cause: str | None = None,
    job_ids: Sequence[int] | None = None,
    is_current: bool = False,
) -> Columns:
    """Causes of jobs in cuts.outward(interval), of these jobs alone where some are given.

    `is_current`: of hours whose ledger is still the one that was diagnosed.
    """
    limits = _limits(scope)
    asked = {name for name, limit in limits.items() if limit is not None}
    whole = cuts.outward(interval, zone())
    with one_view():
        period = eras(whole, asked)
        told = _spans(period, node_ids=_node_ids(whole, limits), job_id=limits["job_id"], cause=cause, is_current=is_current)
        laid = lay(told.era, told.gpu, told.job, eras=period, asked=asked)
    columns = Columns(told.job, told.cause, told.confidence, told.ms, laid.price, told.causes, laid.prices)
    chosen = laid.chosen(limits)
    if job_ids is not None:
        chosen.append(np.isin(told.job, job_ids))
    if cause is not None:
        chosen.append(_is_of(told, cause))
    return columns.where(reduce(and_, chosen)) if chosen else columns


def of_day(day: date, *, with_sums: bool) -> Spans:
    """All causes of a UTC day; without sums from entries alone."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return _spans(eras(Interval(start, start + _DAY), set()), with_sums=with_sums)


def _limits(scope: Scope) -> Limits:
    """What is looked at: of a cause's time a job holds all, and its states are what it was diagnosed for."""
    limits = limits_of(scope)
    return limits | dict.fromkeys(("states", "is_allocated") if limits["is_allocated"] else ("states",))


def _spans(
    period: Eras,
    *,
    node_ids: Sequence[int] | None = None,
    job_id: int | None = None,
    cause: str | None = None,
    is_current: bool = False,
    with_sums: bool = True,
) -> Spans:
    first, last = period.whole.start.astimezone(UTC).date(), (period.whole.end - timedelta(microseconds=1)).astimezone(UTC).date()
    wanted = period.wanted | {
        "days": [first + _DAY * place for place in range((last - first).days + 1)],
        "node_ids": node_ids,
        "job_id": job_id,
        "cause": cause,
        "use_sums": with_sums,
        "is_current": is_current,
    }
    return spans(fetched(_CAUSED, wanted))


def _is_of(told: Spans, cause: str) -> Bools:
    return np.array([name == cause for name in told.causes], dtype=bool)[told.cause]


def _node_ids(whole: Interval, limits: Limits) -> list[int] | None:
    """On which nodes what is looked at may lie; None = any."""
    node_id = limits["node_id"]
    if limits["job_id"] is None:
        return None if node_id is None else [node_id]
    found = CauseEntry.objects.filter(job=limits["job_id"], start__gte=whole.start, start__lt=whole.end)
    return sorted(found.values_list("node_id", flat=True).distinct() if node_id is None else {node_id})
