"""Sums of the fleet's days, made of those of its nodes.

Derived as they are, and never read when older than the entries.
"""

from datetime import datetime

import numpy as np
import zstandard

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.models import FleetDay
from fleetwatch.figures import boundaries, engine, fleet_sums, narrow_columns
from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.figures.ledger_time import LedgerTime, entries_by_cut
from fleetwatch.figures.packed_spans import NO_JOB, Floats, Ints, sums
from fleetwatch.figures.priced_columns import Columns
from fleetwatch.figures.state_spans import KINDS, RECORD, Kind
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, one_view, read_statement

_VERSION = read_statement("costs/sql/version_of_day.sql")
_OF_NODES = LedgerTime(with_fleet_days=False)


def unsummed(interval: Interval) -> list[Interval]:
    """The days that lie in the interval and have no sum of the fleet that counts, newest first."""
    days = [day for day in boundaries.days(interval, zone()) if day.end <= interval.end]
    are_summed = fleet_sums.summed(days)
    return [day for day in reversed(days) if day.start not in are_summed]


def sum_day(day: Interval) -> None:
    """Sums a day of all nodes, all of which have sums of theirs. Safe twice, and beside posting: of
    entries that change meanwhile the day is found again.
    """
    with one_view():
        ((version,),) = execute(_VERSION, {"start": day.start, "end": day.end})
        alike = alike_gpus()
        of_jobs, of_nodes, of_gpus = (
            engine.read(_OF_NODES, day, by=(group,)) for group in ("job", "node", "gpu")
        )
        by_hour = entries_by_cut(day)
    gpu = alike.first_of(of_jobs.gpu)
    FleetDay.objects.update_or_create(
        start=day.start,
        defaults={
            "until": day.end,
            "version": version,
            "last_gpu_id": alike.last_id,
            "alike": alike.digest(alike.last_id),
            "job_spans": _packed(of_jobs, gpu, of_jobs.job),
            "total_spans": _packed(of_jobs, gpu),
            "node_spans": _packed(of_nodes, of_nodes.gpu),
            "gpu_spans": _packed(of_gpus, of_gpus.gpu),
            "hour_spans": zstandard.compress(narrow_columns.packed(by_hour)),
        },
    )


def _packed(columns: Columns[Kind], gpu: Ints, job: Ints | None = None) -> bytes:
    """The columns' time of each GPU, job (None: of all together) and kind of time."""
    job = np.full_like(gpu, NO_JOB) if job is None else job
    keys, place = np.unique(np.stack([gpu, job, _kinds(columns)]), axis=1, return_inverse=True)
    gpus, jobs, labels = keys
    spans = {
        "gpu": gpus,
        "job": jobs,
        "label": labels,
        "gpu_ms": sums(place, columns.figures["gpu_ms"], len(gpus)),
        "energy_j": _joules(place, columns.figures["energy_j"]),
        "energy_ms": sums(place, columns.figures["energy_ms"], len(gpus)),
    }
    in_order = {name: spans[name] for name in RECORD.names or ()}
    return zstandard.compress(narrow_columns.packed(in_order))


def _kinds(columns: Columns[Kind]) -> Ints:
    """Of each span the place of its label in KINDS."""
    return np.array([KINDS.index(kind) for kind in columns.labels], dtype=np.int64)[columns.label]


def _joules(place: Ints, energy_j: Floats) -> Floats:
    """The sum at each place, of where it was read; NaN = nowhere."""
    is_read = ~np.isnan(energy_j)
    read = np.bincount(place, weights=is_read)
    return np.where(read > 0, np.bincount(place, weights=np.where(is_read, energy_j, 0)), np.nan)


def forget_before(horizon: datetime) -> int:
    """How many days before it were forgotten."""
    return FleetDay.objects.filter(start__lt=horizon).delete()[0]
