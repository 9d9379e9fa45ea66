"""What causes took in a period, as priced columns: what every figure of findings is summed from.

Sums of days are read where they are as new as their causes, entries elsewhere; one reading is of
one moment.
"""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis.cause_columns import Columns, Spans, joined, spans
from fleetwatch.diagnosis.clipped_causes import in_part
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.figures import boundaries, edges
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.packed_spans import Bools
from fleetwatch.figures.priced_spans import Eras, eras, lay
from fleetwatch.figures.scopes import Limits, limits_of
from fleetwatch.figures.totals import EVERYTHING, Scope
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import one_view, read_statement

_SQL = Path(__file__).parent / "sql"
_CAUSED, _AT_EDGES = (
    read_statement(_SQL / f"{name}.sql") for name in ("caused", "caused_at_edges")
)
_DAY = timedelta(days=1)


def read(
    interval: Interval,
    *,
    scope: Scope = EVERYTHING,
    cause: str | None = None,
    job_ids: Sequence[int] | None = None,
    is_current: bool = False,
) -> Columns:
    """Causes of jobs in the interval, of these jobs alone where some are given.

    `is_current`: of hours whose ledger is still the one that was diagnosed.
    """
    limits = _limits(scope)
    asked = {name for name, limit in limits.items() if limit is not None}
    whole = boundaries.outward(interval, zone())
    with one_view():
        period = eras(whole, asked)
        wanted = {
            "node_ids": _node_ids(whole, limits),
            "job_id": limits["job_id"],
            "cause": cause,
            "is_current": is_current,
        }
        inner, ends = edges.split(interval, zone())
        told = _spans(period, inner, wanted)
        if ends:
            told = joined(told, _at_ends(period, ends, wanted))
        laid = lay(told.era, told.gpu, told.job, eras=period, asked=asked)
    columns = Columns(
        told.job, told.cause, told.confidence, told.ms, laid.price, told.causes, laid.prices
    )
    chosen = laid.chosen(limits)
    if job_ids is not None:
        chosen.append(np.isin(told.job, job_ids))
    if cause is not None:
        chosen.append(_is_of(told, cause))
    return columns.where(reduce(and_, chosen)) if chosen else columns


def of_day(day: date, *, with_sums: bool) -> Spans:
    """All causes of a UTC day; without sums from entries alone."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    day_only = eras(Interval(start, start + _DAY), set())
    return _spans(
        day_only,
        day_only.whole,
        {"node_ids": None, "job_id": None, "cause": None, "is_current": False},
        with_sums=with_sums,
    )


def _limits(scope: Scope) -> Limits:
    """What is looked at: of a cause's time a job holds all, and its states are what it was
    diagnosed for.
    """
    limits = limits_of(scope)
    return limits | dict.fromkeys(
        ("states", "is_allocated") if limits["is_allocated"] else ("states",)
    )


def _spans(
    period: Eras, within: Interval | None, wanted: dict[str, Any], *, with_sums: bool = True
) -> Spans:
    """Of whole cuts."""
    if within is None:
        return spans([])
    first, last = (
        within.start.astimezone(UTC).date(),
        (within.end - timedelta(microseconds=1)).astimezone(UTC).date(),
    )
    days = [first + _DAY * place for place in range((last - first).days + 1)]
    return spans(
        fetched(
            _CAUSED,
            period.wanted
            | wanted
            | {"start": within.start, "end": within.end, "days": days, "use_sums": with_sums},
        )
    )


def _at_ends(period: Eras, ends: Sequence[Edge], wanted: dict[str, Any]) -> Spans:
    """Of the cuts of which the period takes a part: as much of each cause as the part has of what
    the ledger says it wasted.
    """
    rows = fetched(_AT_EDGES, wanted | {"cuts": [edge.cut.start for edge in ends]})
    parts = edges.parts(ends, wanted["node_ids"])
    found = spans([])
    for number, edge in enumerate(ends):
        era = bisect_right(period.starts[1:], edge.cut.start)
        whole = spans(
            [(node, era, causes, packed) for at, node, causes, packed in rows if at == number]
        )
        found = joined(found, in_part(whole, parts.of(number)))
    return found


def _is_of(told: Spans, cause: str) -> Bools:
    return np.array([name == cause for name in told.causes], dtype=bool)[told.cause]


def _node_ids(whole: Interval, limits: Limits) -> list[int] | None:
    """On which nodes what is looked at may lie; None = any."""
    node_id = limits["node_id"]
    if limits["job_id"] is None:
        return None if node_id is None else [node_id]
    found = CauseEntry.objects.filter(
        job=limits["job_id"], start__gte=whole.start, start__lt=whole.end
    )
    return sorted(
        found.values_list("node_id", flat=True).distinct() if node_id is None else {node_id}
    )
