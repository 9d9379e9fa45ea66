"""By what the table of jobs is sorted beside its figures: what is said of jobs, and what their GPUs
did.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import title
from fleetwatch.figures.packed_spans import Ints
from fleetwatch.figures.ranking import SORTS as FIGURES
from fleetwatch.figures.ranking import Order
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import running_ids
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

NOW = "now"  # those that run now, then the most waste
NAMES = {"name": "name", "owner": "user", "state": "state"}  # from A on
CAUSE = "cause"
LOST = "lost"  # by the fault that ended them: of lists of a fault's jobs alone
SORTS = {  # by what a list of jobs may be ordered, and what that is called
    NOW: "running first",
    "waste": "most wasted",
    "cost": "most expensive",
    "time": "most GPU-hours",
    "gpus": "most GPUs",
    "name": "name",
    "owner": "owner",
    "state": "state",
    CAUSE: "likely cause",
    "start": "newest",
    "duration": "longest",
    "active": "most active",
    "memory": "most memory",
}
UNKNOWN = -(2**40)  # behind all that is known

_SIGNALS = read_statement("dashboard/sql/job_signals.sql")


@dataclass(frozen=True, slots=True)
class Signals:
    """How busy a job's GPUs were on average, 0 to 1, and the most memory that one of them used in
    an hour on average, in bytes; None = not read. How many GPUs; None = not asked for.
    """

    active: float | None = None
    memory_bytes: float | None = None
    gpus: int | None = None


def order_by(sort: str, interval: Interval) -> Order:
    """The order of one of SORTS: names from A on, what is not known last, all else the largest (of
    starts the newest) first.
    """
    if sort == NOW:
        return Order(ahead=running_ids())
    if sort in FIGURES:
        return Order(sort)
    values: dict[str, Callable[[Ints], Ints]] = {
        **{name: partial(_by_name, field) for name, field in NAMES.items()},
        CAUSE: partial(_by_cause, interval),
        "start": partial(_by_number, _starts),
        "duration": partial(_by_number, partial(_durations, now_ms=interval.end_ms)),
        "active": partial(_by_signal, "active", 1e6, interval),
        "memory": partial(_by_signal, "memory_bytes", 1, interval),
    }
    return Order(values=values[sort])


def order_by_lost(lost_usd: Mapping[int, Decimal | None]) -> Order:
    """The order by what jobs lost at most, by their ids, the most first, what is not known last;
    where nothing is known, of NOW.
    """
    micros = {pk: int(usd * 1_000_000) for pk, usd in lost_usd.items() if usd is not None}
    if not micros:
        return Order(ahead=running_ids())
    return Order(values=partial(_in_places, values=micros))


def signals(job_ids: Iterable[int], interval: Interval) -> dict[int, Signals]:
    """What of these jobs was read in the hours that the interval touches, by the job's id."""
    wanted = {
        "job_ids": list(job_ids),
        "start_ms": interval.start_ms,
        "end_ms": interval.end_ms,
    }
    return {job_id: Signals(*read) for job_id, *read in fetched(_SIGNALS, wanted)}


def _by_name(field: str, ids: Ints) -> Ints:
    """From A on; of jobs that the reader does not see nothing is known."""
    rows = visible(Job.objects.filter(pk__in=ids.tolist())).values_list("pk", field)
    return _from_a(ids, {pk: name.casefold() for pk, name in rows if name})


def _by_cause(interval: Interval, ids: Ints) -> Ints:
    why = diagnosis.causes_of(ids.tolist(), interval)
    return _from_a(ids, {pk: title(primary.cause) for pk, primary in why.items()})


def _from_a(ids: Ints, names: dict[int, str]) -> Ints:
    place = {name: number for number, name in enumerate(sorted(set(names.values())))}
    return _in_places(ids, {pk: -place[name] for pk, name in names.items()})


def _by_number(numbers_of: Callable[[Sequence[Any]], dict[int, int]], ids: Ints) -> Ints:
    rows = visible(Job.objects.filter(pk__in=ids.tolist()))
    return _in_places(ids, numbers_of(list(rows.values_list("pk", "start_ms", "end_ms"))))


def _starts(rows: Sequence[Any]) -> dict[int, int]:
    return {pk: start_ms for pk, start_ms, _ in rows if start_ms is not None}


def _durations(rows: Sequence[Any], *, now_ms: int) -> dict[int, int]:
    return {pk: (end_ms or now_ms) - start_ms for pk, start_ms, end_ms in rows if start_ms}


def _by_signal(name: str, times: float, interval: Interval, ids: Ints) -> Ints:
    read = signals(ids.tolist(), interval)
    values = {pk: getattr(signal, name) for pk, signal in read.items()}
    rounded = {pk: round(value * times) for pk, value in values.items() if value is not None}
    return _in_places(ids, rounded)


def _in_places(ids: Ints, values: dict[int, int]) -> Ints:
    return np.array([values.get(pk, UNKNOWN) for pk in ids.tolist()], dtype=np.int64)
