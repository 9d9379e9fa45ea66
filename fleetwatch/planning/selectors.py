"""Reads of capacity: hours of GPU models, what was free while jobs waited, what jobs held."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db.models import Sum

from fleetwatch.diagnosis.capacity import QUEUE, clusters
from fleetwatch.diagnosis.models import CapacityEntry
from fleetwatch.figures.totals import NOBODY
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import state_days
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.array_types import Ints
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour, floor_hour
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
    """The whole UTC hours of the interval that are posted, the last LONGEST of them; None without
    one.
    """
    end = floor_hour(min(interval.end, now - SETTLED))
    start = max(ceil_hour(interval.start), end - LONGEST)
    return Interval(start, end) if start < end else None


def model_hours(hours: Interval, narrowed: Narrowed = EVERY_GPU) -> list[ModelHours]:
    """Each GPU model hour by hour, by name; models without time are left out.

    `hours` begins and ends with a UTC hour.
    """
    machines = _machines(hours, narrowed)
    starts_ms = np.arange(hours.start_ms, hours.end_ms, HOUR_MS)
    days = (_of_day(day, machines) for day in state_days.by_hour(hours))
    return summed((day for day in days if len(day[2])), machines.models, starts_ms)


@dataclass(frozen=True, slots=True)
class _Machines:
    """Of each GPU id its machine (GPUs of one model in one node), -1 where it is not looked at; of
    each machine the place of its model.
    """

    of_gpu: Ints
    model: Ints
    models: list[str]


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


def _of_day(day: state_days.DayHours, machines: _Machines) -> tuple[Ints, HourParts, Ints]:
    """A day's machines x hours, and of each machine the place of its model."""
    newest = len(machines.of_gpu) - 1  # of the ids that are looked at
    of_gpu = machines.of_gpu[np.minimum(day.gpu_ids, newest)]
    machine = np.where(day.gpu_ids <= newest, of_gpu, -1)
    order = np.argsort(machine, kind="stable")[np.count_nonzero(machine < 0) :]
    in_order = machine[order]
    first = np.flatnonzero(np.diff(in_order, prepend=-1))
    sums = np.add.reduceat(day.spent_ms[order], first, axis=0) if len(first) else day.spent_ms[:0]
    together = state_days.DayHours(day.starts_ms, in_order[first], sums)
    return day.starts_ms, with_whole(_parts(together)), machines.model[together.gpu_ids]


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
