"""What pages read across the apps: machines with their GPUs, bands of states, holders, jobs
by key.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Count, Max, Q

from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.dashboard import bars, words
from fleetwatch.dashboard.bars import Ints, Segment, Stretches
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.selectors import hosts
from fleetwatch.jobs.models import Allocation, GPUProcess, Job
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import array_of, fetched
from fleetwatch.lib.sql import read_statement

BAND_CELLS = 288  # as many as a wide screen shows apart
MIN_SEARCH_CHARACTERS = 2

_STRETCHES = read_statement("dashboard/sql/stretches.sql")
_PARTS = {"unverified": "useful", "waiting": "stalled"}  # of which state each is a part
_PLACES = np.array([words.NAMES.index(state) for state in (*STATES, *_PARTS)], dtype=np.int64)
# a run in stretches.sql
_SPENT = np.dtype([("states", array_of(">i4", len(STATES))), *((part, ">f8") for part in _PARTS)])
_RUN_BYTES = 16  # of a run in stretches.sql


@dataclass(frozen=True, slots=True)
class Holder:
    """A job's hold on a GPU inside a period; `spans` are clipped to it."""

    allocation: Allocation
    start_ms: int
    end_ms: int
    is_open: bool

    @property
    def held_ms(self) -> int:
        return sum(last - first for first, last in self.allocation.held)


@dataclass(frozen=True, slots=True)
class Machine:
    """A node and what is in it; `model_name` is "" where it is not known."""

    node: Node
    gpu_count: int
    model_name: str


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a job belongs to; "" where it names nobody."""

    user: str
    team_name: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, by kind."""

    nodes: list[Node]
    gpus: list[GPU]
    jobs: list[Job]
    users: list[str]

    @property
    def count(self) -> int:
        return len(self.nodes) + len(self.gpus) + len(self.jobs) + len(self.users)


def has_data() -> bool:
    """Whether any GPU was ever seen: before that, pages lead to /welcome."""
    return GPU.objects.exists()


def stretches(gpu_ids: Sequence[int], interval: Interval, *, job: Job | None = None) -> Stretches:
    """What overlaps the interval, by place in `gpu_ids`; of one job when given.

    On purpose the parts of runs, an hour long at most: a cell's states are then as near to
    the truth as the ledger keeps them. When a run began is for `ledger.selectors.runs` to say.
    """
    wanted = {
        "gpu_ids": list(gpu_ids),
        "start_ms": interval.start_ms,
        "end_ms": interval.end_ms,
        "job_id": job.pk if job else None,
    }
    place = {gpu_id: number for number, gpu_id in enumerate(gpu_ids)}
    found = fetched(_STRETCHES, wanted)
    runs = (
        np.frombuffer(b"".join([packed for _, packed, _ in found]), dtype=">i8")
        .astype(np.int64)
        .reshape(-1, 2)
    )
    gpu = np.repeat(
        np.array([place[gpu_id] for gpu_id, *_ in found], dtype=np.int64),
        [len(packed) // _RUN_BYTES for _, packed, _ in found],
    )
    spent = _spent(b"".join([told for _, _, told in found]))
    # a run has a stretch for each of its states
    run, state = np.nonzero(spent)
    return Stretches(
        gpu[run],
        runs[run, 0],
        runs[run, 1],
        _PLACES[state],
        spent[run, state],
        spent.sum(axis=1)[run],
    )


def _spent(packed: bytes) -> Ints:
    """Runs x (STATES, _PARTS): milliseconds, those of a part taken from its state."""
    runs = np.frombuffer(packed, dtype=_SPENT)
    states_ms = runs["states"]["each"]["value"].astype(np.int64)
    columns = [states_ms]
    for part, state in _PARTS.items():
        whole_ms = states_ms[:, STATES.index(state)]
        part_ms = np.rint(whole_ms * runs[part]).astype(np.int64)
        whole_ms -= part_ms
        columns.append(part_ms[:, None])
    return np.concatenate(columns, axis=1)


def states(
    gpu_ids: Sequence[int], interval: Interval, count: int, *, job: Job | None = None
) -> Ints:
    """GPUs x `count` equal cells of the interval: the state that holds most of each
    (bars.cells).
    """
    told = stretches(gpu_ids, interval, job=job)
    return bars.cells(
        told, gpus=len(gpu_ids), start_ms=interval.start_ms, end_ms=interval.end_ms, count=count
    )


def band_of_life(gpu_ids: Sequence[int], interval: Interval) -> list[Segment]:
    """The states of one GPU, of which these are the rows with each node that it was with."""
    shown = states(gpu_ids, interval, BAND_CELLS)
    names = [*words.NAMES, None]  # -1 is the last one: where it was elsewhere
    return bars.band([names[state] for state in shown.max(axis=0).tolist()])


def bands(
    gpu_ids: Sequence[int], interval: Interval, *, job: Job | None = None
) -> dict[int, list[Segment]]:
    """The states of each GPU over the interval as segments of a band; every GPU asked for
    is there.
    """
    shown = states(gpu_ids, interval, BAND_CELLS, job=job)
    names = [*words.NAMES, None]  # -1 is the last one
    return {
        gpu_id: bars.band([names[state] for state in row])
        for gpu_id, row in zip(gpu_ids, shown.tolist(), strict=True)
    }


@dataclass(frozen=True, slots=True)
class GPUName:
    """What a GPU is called."""

    pk: int
    uuid: str
    index: int | None
    node: str


def physical_gpu_names() -> list[GPUName]:
    """Those of `physical_gpus`, the whole fleet's."""
    named = inventory.known_to_nodes(GPU.objects.filter(parent=None)).order_by(
        "node__name", "index", "uuid"
    )
    return list(itertools.starmap(GPUName, named.values_list("pk", "uuid", "index", "node__name")))


def physical_gpus(*, node: Node | None = None) -> list[GPU]:
    """GPUs in the order people know: node, then index.

    MIG instances are parts of one and not listed.
    """
    wanted = inventory.known_to_nodes(GPU.objects.filter(parent=None)).select_related(
        "node", "model"
    )
    if node is not None:
        wanted = wanted.filter(node=node)
    return list(wanted.order_by("node__name", "index", "uuid"))


def gpus_by_uuid(uuids: Iterable[str]) -> dict[str, GPU]:
    """GPUs with the nodes that reported them last, by UUID."""
    return inventory.newest_rows(uuids)


def jobs_by_key(keys: Iterable[str], *, before: datetime) -> dict[str, Job]:
    """Jobs with the teams that they belonged to just before that moment, by key."""
    return {
        job.key: job
        for job in into_teams(
            Job.objects.filter(key__in=list(keys)).select_related("team"), before=before
        )
    }


def owners(keys: Iterable[str], *, before: datetime) -> dict[str, Owner]:
    """Who the jobs belonged to just before that moment, by key; a job whose row is gone belongs to
    nobody.
    """
    wanted = list(keys)
    known = {
        key: Owner(job.user, job.team.name if job.team else "")
        for key, job in jobs_by_key(wanted, before=before).items()
    }
    return {key: known.get(key, Owner("", "")) for key in wanted}


def machines() -> list[Machine]:
    """Every node by name, with how many physical GPUs it has and the model of one of them;
    importers of accounting are none.
    """
    physical = Q(gpus__parent=None)
    nodes = (
        hosts()
        .annotate(gpu_count=Count("gpus", filter=physical), model_name=Max("gpus__model__name"))
        .order_by("name")
    )
    return [Machine(node, node.gpu_count, node.model_name or "") for node in nodes]


def holders(gpu: GPU, interval: Interval, *, limit: int = 50) -> list[Holder]:
    """Who held the GPU (or an instance of it) in the interval, latest first."""
    held: list[Holder] = []
    rows = Allocation.objects.filter(
        Q(gpu__uuid=gpu.uuid) | Q(gpu__parent__uuid=gpu.uuid)
    ).select_related("job", "job__team")
    for allocation in rows.iterator(chunk_size=2000):
        spans = [
            span
            for span in allocation.held
            if span[0] < interval.end_ms and span[1] > interval.start_ms
        ]
        if spans:
            held.append(
                Holder(allocation, spans[0][0], spans[-1][1], spans[-1][1] >= (gpu.newest_ms or 0))
            )
    latest = sorted(held, key=lambda holder: (-holder.end_ms, -holder.start_ms))[:limit]
    into_teams((holder.allocation.job for holder in latest), before=interval.end)
    return latest


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
        .order_by("node__name", "index", "uuid")
    )


def search(text: str, *, limit: int = 10) -> Found:
    """Nodes, GPUs, jobs and users whose name, UUID or key contains the text; nothing for a single
    character.
    """
    if len(text) < MIN_SEARCH_CHARACTERS:
        return Found([], [], [], [])
    jobs = Job.objects.filter(Q(key__icontains=text) | Q(name__icontains=text)).order_by(
        "-start_ms", "key"
    )[:limit]
    users = (
        Job.objects.filter(user__icontains=text)
        .exclude(user="")
        .values_list("user", flat=True)
        .distinct()
        .order_by("user")[:limit]
    )
    return Found(
        nodes=list(Node.objects.filter(name__icontains=text).order_by("name")[:limit]),
        gpus=list(
            inventory.here(GPU.objects.filter(uuid__icontains=text))
            .select_related("node")
            .order_by("uuid")[:limit]
        ),
        jobs=list(jobs),
        users=list(users),
    )
