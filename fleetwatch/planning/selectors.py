"""Reads of capacity: hours of GPU models, what was free while jobs waited, what jobs held."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
from django.db.models import Sum
from numpy.typing import NDArray

from fleetwatch.diagnosis.capacity import QUEUE, clusters
from fleetwatch.diagnosis.models import CapacityEntry
from fleetwatch.figures.selectors import ledger_began
from fleetwatch.figures.totals import NOBODY
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import state_days
from fleetwatch.ledger.models import HOURS
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.array_types import Ints
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour, floor_hour
from fleetwatch.lib.kept import Kept
from fleetwatch.planning.model_hours import HourParts, ModelHours, summed, with_whole

LONGEST = timedelta(days=100)  # hour by hour, each GPU: of 1,000 GPUs a second's work
SUBJECTS = ("gpu_model", "node", "cluster")  # what GPUs are narrowed to
# of state_days' states
ACTIVE = ("useful", "unverified", "underused")
HELD = (*ACTIVE, "stalled", "waiting", "idle", "starting")


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Which GPUs are looked at; None = all. A node is of a cluster that its newest job is of."""

    gpu_model: str | None = None
    node: str | None = None
    cluster: str | None = None


EVERY_GPU = Narrowed()

# By UTC day and machines: of a hundred days of ten GPU models 1.4 MB.
_KEPT: Kept[tuple[date, str], NDArray[np.uint8]] = Kept(most_bytes=8 * 2**20)


@dataclass(frozen=True, slots=True)
class WhileWaiting:
    """GPU-milliseconds that stood free while jobs waited for GPUs of the same cluster, and what of
    it these could have used: at least, at most. The rest fitted none of them.
    """

    free_ms: int
    least_ms: int
    most_ms: int

    @property
    def unfit_ms(self) -> int:
        return self.free_ms - self.most_ms


def whole_hours(interval: Interval, now: datetime) -> Interval | None:
    """The whole UTC hours of the interval that are recorded and posted, the last LONGEST of them;
    None without one.
    """
    began = ledger_began()
    if began is None:
        return None
    end = floor_hour(min(interval.end, now - SETTLED))
    start = max(ceil_hour(max(interval.start, began)), end - LONGEST)
    return Interval(start, end) if start < end else None


def model_hours(hours: Interval, narrowed: Narrowed = EVERY_GPU) -> list[ModelHours]:
    """Each GPU model hour by hour, by name; models without time are left out.

    `hours` begins and ends with a UTC hour.
    """
    machines = _machines(hours, narrowed)
    starts_ms = np.arange(hours.start_ms, hours.end_ms, HOUR_MS)
    every_model = np.arange(len(machines.models))
    days = (
        (starts_ms, HourParts(*parts), every_model) for starts_ms, parts in _days(hours, machines)
    )
    return summed(days, machines.models, starts_ms)


def _days(hours: Interval, machines: "_Machines") -> Iterator[tuple[Ints, Ints]]:
    """Of each UTC day that the hours touch, and of which there is something, when its hours begin,
    and parts x models x hours.
    """
    days = state_days.days_of(hours)
    digest = machines.digest
    # before what they are of: what is posted in between is read again
    versions = state_days.versions_of(days)
    kept = _kept_days(versions, digest, len(machines.models))
    yield from ((state_days.hours_of(day), parts) for day, parts in kept.items())
    for day in state_days.of_days([day for day in days if day not in kept]):
        parts = _of_models(day, machines)
        if day.day in versions:
            _KEPT.keep((day.day, digest), versions[day.day], parts.view(np.uint8))
        yield day.starts_ms, parts


def _kept_days(versions: Mapping[date, Decimal], digest: str, models: int) -> dict[date, Ints]:
    """Parts x models x hours of the days that are kept in these versions."""
    shape = (len(HourParts._fields), models, HOURS)
    kept = {day: _KEPT.read((day, digest), version) for day, version in versions.items()}
    return {
        day: parts.view(np.int64).reshape(shape) for day, parts in kept.items() if parts is not None
    }


@dataclass(frozen=True, slots=True)
class _Machines:
    """Of each GPU id its machine (GPUs of one model in one node), -1 where it is not looked at; of
    each machine the place of its model.
    """

    of_gpu: Ints
    model: Ints
    models: list[str]

    @property
    def digest(self) -> str:
        """Of all of it."""
        parts = (*map(bytes, (self.of_gpu, self.model)), "\n".join(self.models).encode())
        return hashlib.md5(b"".join(parts), usedforsecurity=False).hexdigest()


def _machines(hours: Interval, narrowed: Narrowed) -> _Machines:
    rows = GPU.objects.filter(parent=None, **_filters(narrowed))
    if narrowed.cluster is not None:
        of = clusters(hours.start_ms, hours.end_ms)
        rows = rows.filter(node__in=[pk for pk, name in of.items() if name == narrowed.cluster])
    gpus = rows.values_list("pk", "node_id", "model__name")
    machine_of = {pk: (node_id, model or NOBODY) for pk, node_id, model in gpus}
    return _numbered(machine_of)


def _numbered(machine_of: Mapping[int, tuple[int, str]]) -> _Machines:
    """GPU ids with the node and model of each."""
    machines = sorted(set(machine_of.values()))
    number = {machine: place for place, machine in enumerate(machines)}
    of_gpu = np.full(max(machine_of, default=0) + 1, -1, dtype=np.int64)
    for pk, machine in machine_of.items():
        of_gpu[pk] = number[machine]
    models = sorted({model for _, model in machines})
    places = [models.index(model) for _, model in machines]
    return _Machines(of_gpu, np.array(places, dtype=np.int64), models)


def _filters(narrowed: Narrowed) -> dict[str, str | bool]:
    filters: dict[str, str | bool] = {}
    if narrowed.gpu_model == NOBODY:
        filters["model__isnull"] = True
    elif narrowed.gpu_model is not None:
        filters["model__name"] = narrowed.gpu_model
    return filters if narrowed.node is None else filters | {"node__name": narrowed.node}


def _of_models(day: state_days.DayHours, machines: _Machines) -> Ints:
    """A day's parts x models x hours."""
    by_machine = _of_machines(day, machines)
    parts = np.stack(with_whole(_parts(by_machine)))
    of_models = np.zeros((len(parts), len(machines.models), HOURS), dtype=np.int64)
    for of_part, part in zip(of_models, parts, strict=True):
        np.add.at(of_part, machines.model[by_machine.gpu_ids], part)
    return of_models


def _of_machines(day: state_days.DayHours, machines: _Machines) -> state_days.DayHours:
    """A day of the machines that are looked at, under their numbers."""
    newest = len(machines.of_gpu) - 1  # of the ids that are looked at
    of_gpu = machines.of_gpu[np.minimum(day.gpu_ids, newest)]
    machine = np.where(day.gpu_ids <= newest, of_gpu, -1)
    order = np.argsort(machine, kind="stable")[np.count_nonzero(machine < 0) :]
    in_order = machine[order]
    first = np.flatnonzero(np.diff(in_order, prepend=-1))
    sums = np.add.reduceat(day.spent_ms[order], first, axis=0) if len(first) else day.spent_ms[:0]
    return state_days.DayHours(day.starts_ms, in_order[first], sums)


def _parts(day: state_days.DayHours) -> HourParts:
    """Machines x hours; what is free is in no part whole yet."""
    free_ms = day.of(["free"])
    return HourParts(
        capacity_ms=day.of(SHOWN_STATES),
        held_ms=day.of(HELD),
        active_ms=day.of(ACTIVE),
        idle_ms=day.of(["idle"]),
        free_ms=free_ms,
        whole_ms=np.zeros_like(free_ms),
        unseen_ms=day.of(["unobserved"]),
    )


def while_waiting(hours: Interval, narrowed: Narrowed = EVERY_GPU) -> WhileWaiting | None:
    """What of the free time stood beside a queue; None where nobody told of one."""
    rows = CapacityEntry.objects.filter(
        cause=QUEUE, start__gte=hours.start, start__lt=hours.end
    ).filter(**{f"gpu__{name}": value for name, value in _filters(narrowed).items()})
    if narrowed.cluster is not None:
        rows = rows.filter(cluster=narrowed.cluster)
    sums = rows.aggregate(free=Sum("gpu_ms"), least=Sum("low_ms"), most=Sum("high_ms"))
    return None if sums["free"] is None else WhileWaiting(*sums.values())
