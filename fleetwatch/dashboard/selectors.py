"""What pages read across the apps: machines with their GPUs, bands of states, holders, jobs
by key.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat, starmap
from typing import Any, NamedTuple

import numpy as np
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Q, QuerySet
from numpy.typing import NDArray

from fleetwatch.costs.mapping.attribution import into_teams, seen_spans
from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing import bars
from fleetwatch.dashboard.drawing.bars import Ints, Segment, Stretches
from fleetwatch.diagnosis.judgement.array_tools import rows_among
from fleetwatch.figures.packed_spans import Bools
from fleetwatch.figures.totals import Totals, nothing
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.selectors import hosts
from fleetwatch.jobs import selectors as jobs
from fleetwatch.jobs.models import GPUProcess, Hold, Job
from fleetwatch.ledger import state_days
from fleetwatch.ledger.packed_runs import RunColumns, unpacked
from fleetwatch.ledger.policy import PARTS, STATES
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement
from fleetwatch.lib.written_once import IDS, written_once

IN_ORDER = ("node__name", "index", "uuid")
BAND_CELLS = 288  # as many as a wide screen shows apart

_GPU_COUNT = Count("gpus", filter=Q(gpus__parent=None))
_STRETCHES = read_statement("dashboard/sql/stretches.sql")
_PARTS = read_statement("dashboard/sql/state_parts.sql")
_PLACES = np.array([words.NAMES.index(state) for state in (*STATES, *PARTS)], dtype=np.int64)
# a row of state_parts.sql
_PART = np.dtype(
    [
        *((name, ">i8") for name in ("gpu_id", "job_id", "start_ms")),
        *((part, ">f8") for part in PARTS),
    ]
)
MAX_PLACES = 2**14
MAX_HOURS = 2**20  # since 1970: up to the year 2089


Rows = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Holder:
    """A job's hold on a GPU inside a period; `spans` are clipped to it."""

    allocation: Hold
    start_ms: int
    end_ms: int
    is_open: bool

    @property
    def held_ms(self) -> int:
        return sum(last - first for first, last in self.allocation.held)


@dataclass(frozen=True, slots=True)
class GPULine:
    """A GPU with its figures and its states over the period."""

    gpu: GPU
    totals: Totals
    segments: list[Segment]


def has_data() -> bool:
    """Whether any GPU was ever seen: before that, pages lead to /welcome."""
    return GPU.objects.exists()


def stretches(gpu_ids: Sequence[int], interval: Interval, *, job: Job | None = None) -> Stretches:
    """What overlaps the interval, by place in `gpu_ids`; of one job when given.

    On purpose the parts of runs, an hour long at most: a cell's states are then as near to
    the truth as the ledger keeps them. When a run began is for `ledger.selectors.runs` to say.
    """
    asked = {
        "gpu_ids": list(gpu_ids),
        "start_ms": interval.start_ms,
        "end_ms": interval.end_ms,
        "job_id": job.pk if job else None,
    }
    place = {gpu_id: number for number, gpu_id in enumerate(gpu_ids)}
    runs = unpacked(fetched(_STRETCHES, asked))
    runs = runs.where((runs.start_ms < interval.end_ms) & (runs.end_ms > interval.start_ms))
    gpu = _places(runs.gpu, place)
    keys = _keys(gpu, runs.job, runs.start_ms)
    return _in_order(gpu, runs, _spent(runs, *_with_parts(keys, asked, place)))


def hourly(gpu_ids: Sequence[int], interval: Interval) -> Stretches:
    """As `stretches`, of whole hours: each state's time spread over its hour."""
    hours = interval.outward_to_hours()
    spent = state_days.shown_spent(gpu_ids, hours)
    gpu, hour, state = np.nonzero(spent)
    start_ms = hours.start_ms + hour * HOUR_MS
    whole = np.full(len(gpu), HOUR_MS)
    return Stretches(gpu, start_ms, start_ms + HOUR_MS, state, spent[gpu, hour, state], whole)


def _in_order(gpu: Ints, runs: RunColumns, spent: Ints) -> Stretches:
    """A run has a stretch for each of its states."""
    order = np.lexsort((runs.start_ms, gpu))
    place, state = np.nonzero(spent[order])
    run = order[place]
    return Stretches(
        gpu[run],
        runs.start_ms[run],
        runs.end_ms[run],
        _PLACES[state],
        spent[run, state],
        spent.sum(axis=1)[run],
    )


def _places(gpu_id: Ints, place: Mapping[int, int]) -> Ints:
    """Of each row the place of its GPU."""
    gpu_ids, at = np.unique(gpu_id, return_inverse=True)
    return np.array([place[each] for each in gpu_ids.tolist()], dtype=np.int64)[at]


def _with_parts(
    keys: Ints, asked: Mapping[str, Any], place: Mapping[int, int]
) -> tuple[Ints, Rows]:
    """The runs (by their keys) of whose states parts are known, and these."""
    ((packed,),) = fetched(_PARTS, asked)
    parts = np.frombuffer(packed or b"", _PART)
    gpu = _places(parts["gpu_id"], place)
    own = _keys(gpu, parts["job_id"], parts["start_ms"])
    order = np.argsort(own)
    part = rows_among(own[order], keys)
    run = np.flatnonzero(part < len(own))
    return run, parts[order[part[run]]]


def _keys(gpu: Ints, job_id: Ints, start_ms: Ints) -> Ints:
    """One number for a GPU's place, its holder and the clock hour: up to job 500 million, and the
    year 2089.
    """
    keys: Ints = (job_id * MAX_PLACES + gpu) * MAX_HOURS + start_ms // HOUR_MS
    return keys


def _spent(runs: RunColumns, run: Ints, parts: Rows) -> Ints:
    """Runs x (STATES, PARTS): milliseconds, those of a part taken from its state."""
    spent = np.zeros((len(runs.gpu), len(STATES) + len(PARTS)), dtype=np.int64)
    spent[:, : len(STATES)] = runs.states_ms
    for column, (name, state) in enumerate(PARTS.items(), len(STATES)):
        whole = STATES.index(state)
        spent[run, column] = np.rint(spent[run, whole] * parts[name])
        spent[run, whole] -= spent[run, column]
    return spent


def states(
    gpu_ids: Sequence[int], interval: Interval, count: int, *, job: Job | None = None
) -> Ints:
    """GPUs x `count` equal cells of the interval: the state that holds most of each
    (bars.cells). Cells of an hour and more are made of the ledger's hours, a tenth of its runs.
    """
    by_hour = job is None and interval.duration_ms >= count * HOUR_MS
    return bars.cells(
        hourly(gpu_ids, interval) if by_hour else stretches(gpu_ids, interval, job=job),
        gpus=len(gpu_ids),
        start_ms=interval.start_ms,
        end_ms=interval.end_ms,
        count=count,
    )


def bands(
    gpu_ids: Sequence[int], interval: Interval, *, job: Job | None = None
) -> dict[int, list[Segment]]:
    """The states of each GPU over the interval as segments of a band; every GPU asked for
    is there. Of a job it is empty where its time was another team's than the reader's.
    """
    shown = states(gpu_ids, interval, BAND_CELLS, job=job)
    if job is not None:
        shown[:, _is_others(job, interval)] = -1
    rows = shown.tolist()
    return {gpu_id: bars.band(row) for gpu_id, row in zip(gpu_ids, rows, strict=True)}


def _is_others(job: Job, interval: Interval) -> Bools:
    """Of each cell of a band whether the reader sees nothing of its middle."""
    spans = seen_spans(job)
    if spans is None:
        return np.zeros(BAND_CELLS, dtype=bool)
    middles = [
        interval.start + (interval.end - interval.start) * (2 * place + 1) / (2 * BAND_CELLS)
        for place in range(BAND_CELLS)
    ]
    return np.array([not any(start <= at < end for start, end in spans) for at in middles])


def gpu_lines(
    gpus: Sequence[GPU],
    by_uuid: Mapping[str, Totals],
    interval: Interval,
    *,
    job: Job | None = None,
) -> list[GPULine]:
    """The GPUs in their order, each with its figures and its states over the interval."""
    segments = bands([gpu.pk for gpu in gpus], interval, job=job)
    return [GPULine(gpu, by_uuid.get(gpu.uuid, nothing()), segments[gpu.pk]) for gpu in gpus]


def physical_gpus(node: Node) -> list[GPU]:
    """Those of the node in the order people know, by index; MIG instances are parts of one and not
    listed.
    """
    gpus = inventory.known_to_nodes(GPU.objects.filter(parent=None, node=node))
    return list(gpus.select_related("node", "model").order_by(*IN_ORDER))


class GPUName(NamedTuple):
    """What a map calls a GPU by."""

    pk: int
    uuid: str
    index: int | None  # type: ignore[assignment]  # the GPU's, not the tuple's method
    node_id: int


@written_once
def _gpu_names() -> QuerySet[GPU, Any]:
    gpus = inventory.known_to_nodes(GPU.objects.filter(parent=None, node__in=IDS))
    return gpus.order_by(*IN_ORDER).values_list(*GPUName._fields)


def physical_gpu_names(nodes: Collection[int]) -> list[GPUName]:
    """What those of the nodes are called, those of a node by index."""
    return list(starmap(GPUName, _gpu_names(ids=list(nodes))))


def machines() -> list[Any]:
    """Every node by name, with how many physical GPUs it has (gpu_count) and the model of one of
    them (model_name, None: not known); importers of accounting are none.
    """
    nodes = hosts().annotate(gpu_count=_GPU_COUNT, model_name=Max("gpus__model__name"))
    return list(nodes.order_by("name"))


def newest_node() -> int:
    """The id of the node that came last; 0 before the first."""
    return Node.objects.aggregate(newest=Max("pk"))["newest"] or 0


class MachineName(NamedTuple):
    """What a node with physical GPUs is called, and what these are, by index."""

    pk: int
    name: str
    gpus: list[GPUName]

    @property
    def gpu_count(self) -> int:
        return len(self.gpus)


@written_once
def named_machines() -> QuerySet[GPU, Any]:
    gpus = inventory.known_to_nodes(GPU.objects.filter(parent=None, node__in=hosts()))
    by_node = gpus.order_by("node__name").values_list("node_id", "node__name")
    _, *in_order = IN_ORDER
    return by_node.annotate(
        **{f"of_{name}": ArrayAgg(name, order_by=in_order) for name in ("pk", "uuid", "index")}
    )


def machine_names() -> list[MachineName]:
    """Those of all nodes that have GPUs, by name: of the rows of `named_machines`."""
    return [
        MachineName(pk, name, list(map(GPUName, *of_gpus, repeat(pk))))
        for pk, name, *of_gpus in named_machines()
    ]


def holders(gpu: GPU, interval: Interval, *, limit: int = 50) -> list[Holder]:
    """Who held the GPU (or an instance of it) in the interval, latest first."""
    held = []
    rows = Hold.objects.filter(
        Q(gpu__uuid=gpu.uuid) | Q(gpu__parent__uuid=gpu.uuid)
    ).select_related("job", "job__team")
    for allocation in rows.iterator(chunk_size=2000):
        spans = [
            (start_ms, end_ms)
            for start_ms, end_ms in allocation.held
            if start_ms < interval.end_ms and end_ms > interval.start_ms
        ]
        if spans:
            end_ms = spans[-1][1]
            is_open = end_ms >= (gpu.newest_ms or 0)
            held.append(Holder(allocation, spans[0][0], end_ms, is_open))
    latest = sorted(held, key=lambda holder: (-holder.end_ms, -holder.start_ms))[:limit]
    into_teams((holder.allocation.job for holder in latest), before=interval.end)
    return latest


def running_on(node: Node) -> list[str]:
    """The names of the jobs that held the node's GPUs in the last minute that it was heard, and
    are not over, by name.
    """
    heard_ms = node.last_ms or 0
    holdings = jobs.holdings(node.pk, heard_ms - MINUTE_MS, heard_ms)
    ids = {held.job_id for held in holdings}
    named = Job.objects.filter(pk__in=ids, end_ms=None).values_list("name", "key")
    return sorted({name or key for name, key in named})


def processes(gpu: GPU) -> list[GPUProcess]:
    """The processes last seen on the GPU, the largest first."""
    return list(
        GPUProcess.objects.filter(gpu=gpu).select_related("job").order_by("-memory_bytes", "pid")
    )


def job_gpus(job: Job) -> list[GPU]:
    """Every GPU that the job ever held, by node and index."""
    return list(
        GPU.objects.filter(allocations__job=job)
        .select_related("node", "model")
        .distinct()
        .order_by(*IN_ORDER)
    )
