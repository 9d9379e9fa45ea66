"""From rows to lanes: the packed cells of nodes, and the ledger's states beside them."""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.db import connection
from django.db.models import F

from fleetwatch.costs.book import cheaper_than, prices_of_models
from fleetwatch.diagnosis import cells, lows, packing
from fleetwatch.diagnosis.cells import CELL_MS, Floats, Ints
from fleetwatch.diagnosis.features import STATES, Lanes, Offers, shared, warm_up
from fleetwatch.diagnosis.packing import Hour
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.ledger import cell_states, hour_cells
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.telemetry import frames

CELLS_PER_HOUR = HOUR_MS // CELL_MS
# A pause that had begun before is told from one that begins; of a longer one so much counts.
CONTEXT_MS = 900_000
SHORT_CONTEXT_MS = CELL_MS
NODE_HOURS_AT_ONCE = 16  # whose windows are worked on together: arrays that fit no cache cost time

# A run that ended so fell over by itself; Slurm's and Kubernetes' words.
FAILED = ("FAILED", "OUT_OF_MEMORY")
SHORT_RUN_MS = 1_800_000  # a shorter run that failed did not come far
ALIKE_MS = 6 * HOUR_MS  # before and after it others of its name count
Series = tuple[str, str]  # user and name

# Names that model servers go by; a pod of KServe or Ray Serve has them in its labels.
SERVING = re.compile(
    r"\b(vllm|triton(server)?|text-generation|tgi|ray[- ]?serve|sglang|tensorrt-llm|kserve|inferenceservice|ollama)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Held:
    """What the ledger says of a node's held GPUs, cell by cell: rows of ledger.cell_states."""

    node_id: int
    table: cell_states.Table

    def gpus(self) -> list[int]:
        """The GPUs that some job held."""
        return [int(gpu) for gpu in np.unique(self.table["gpu_id"])]

    def holders(self, gpu_ids: Sequence[int] | Ints, start_ms: int, count: int) -> Ints:
        """GPUs x cells: the job that holds it, 0 = none; of several any one."""
        held_by = np.zeros((len(gpu_ids), count), dtype=np.int64)
        row = np.searchsorted(np.asarray(gpu_ids, dtype=np.int64), self.table["gpu_id"])
        held_by[row, (self.table["start_ms"] - start_ms) // CELL_MS] = self.table["job_id"]
        return held_by

    def digests(self, hour_ms: int) -> tuple[int, ...]:
        """Of each cell of a clock hour what changes when the ledger says something else of it."""
        table = self.between(hour_ms, hour_ms + HOUR_MS).table
        rows = np.stack([table[name] for name in sorted(table)], axis=1)
        cell = (table["start_ms"] - hour_ms) // CELL_MS
        return tuple(zlib.crc32(rows[cell == number].tobytes()) for number in range(CELLS_PER_HOUR))

    def between(self, start_ms: int, end_ms: int) -> "Held":
        """Of the cells that start then."""
        inside = (self.table["start_ms"] >= start_ms) & (self.table["start_ms"] < end_ms)
        return Held(self.node_id, {name: values[inside] for name, values in self.table.items()})


def held(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Held]:
    """Per node what the ledger says of the clock hours in [start_ms, end_ms)."""
    return {node_id: Held(node_id, table) for node_id, table in hour_cells.read(node_ids, start_ms, end_ms).items()}


def context_ms(gpu_ids: Ints, before: Hour | None, cell: int) -> int:
    """How far back windows are needed to make the next cells of these GPUs; `cell` of the hour `before` is the last known one.

    Where each of them has a window in that cell that is no long pause, nothing from before that cell goes on after it.
    """
    names = (lows.LOW_S, cells.DIPS_WINDOWS)
    if before is None or not set(names) <= set(before.names) or not np.isin(gpu_ids, before.gpu_ids).all():
        return CONTEXT_MS
    rows = np.searchsorted(before.gpu_ids, gpu_ids)
    low_s, windows = (before.figures[before.names.index(name), rows, cell] for name in names)
    # were all windows long pauses, their sum were not below
    has_worked = low_s < lows.LONG_S * windows
    return SHORT_CONTEXT_MS if has_worked.all() else CONTEXT_MS


def made_hours(found: Sequence[Held], start_ms: int, end_ms: int, context_ms: int = CONTEXT_MS) -> dict[tuple[int, int], Hour]:
    """(node, clock hour) -> the cells of its held GPUs, from windows, up to the end of a clock hour.

    The first hour may be cut, at a cell: nothing is known of those before.
    """
    made: dict[tuple[int, int], Hour] = {}
    at_once = max(NODE_HOURS_AT_ONCE * HOUR_MS // (end_ms - start_ms), 1)
    for first in range(0, len(found), at_once):
        made |= _made_hours(found[first : first + at_once], start_ms, end_ms, context_ms)
    return made


def _made_hours(found: Sequence[Held], start_ms: int, end_ms: int, context_ms: int) -> dict[tuple[int, int], Hour]:
    first_ms, count = start_ms // HOUR_MS * HOUR_MS, (end_ms - start_ms) // CELL_MS
    here = [one.between(first_ms, end_ms) for one in found]
    gpus = [np.asarray(one.gpus(), dtype=np.int64) for one in here]
    place = {one.node_id: number for number, one in enumerate(found)}
    windows, hosts = [], []
    for _, frame, host in frames.of_nodes(list(place), start_ms - context_ms, end_ms, cells.COLUMNS, cells.HOST_MEANS):
        windows.append(spoken(frame))
        hosts.append(host)
    gpu_ids = np.concatenate(gpus)
    holders = [one.between(start_ms, end_ms).holders(gpus[n], start_ms, count) for n, one in enumerate(here)]
    told = cells.cells(
        frames.together(windows),
        hosts,
        gpu_ids=gpu_ids.tolist(),
        host_of=np.repeat(np.arange(len(gpus)), [len(one) for one in gpus]),
        start_ms=start_ms,
        count=count,
        memory_bytes=dict(GPU.objects.filter(pk__in=gpu_ids.tolist()).values_list("pk", "memory_total_bytes")),
        holders=_by_node(holders),
    )
    figures = np.full((len(NAMES), len(gpu_ids), (end_ms - first_ms) // CELL_MS), np.nan, dtype=np.float32)
    begins = (start_ms - first_ms) // CELL_MS
    for number, name in enumerate(NAMES):
        figures[number, :, begins:] = told.figures[name]
    rows = np.cumsum([0, *(len(one) for one in gpus)])
    return {
        (one.node_id, first_ms + hour * HOUR_MS): Hour(
            gpus[number],
            NAMES,
            figures[:, rows[number] : rows[number + 1], hour * CELLS_PER_HOUR : (hour + 1) * CELLS_PER_HOUR],
            one.digests(first_ms + hour * HOUR_MS),
        )
        for number, one in enumerate(here)
        for hour in range(figures.shape[2] // CELLS_PER_HOUR)
    }


def _by_node(holders: Sequence[Ints]) -> Ints:
    """A number for each holder of each node, 0 = nobody: a job's GPUs on other nodes are no peers."""
    numbers, used = [], 1
    for one in holders:
        known, number = np.unique(one, return_inverse=True)
        numbers.append(np.where(one > 0, number.reshape(one.shape) + used, 0))
        used += len(known)
    return np.concatenate(numbers)


def continued(before: Hour | None, made: Hour, first: int) -> Hour:
    """The hour with its cells before `first` as they were."""
    if before is None or first == 0:
        return made
    figures = made.figures.copy()
    _, to, of = np.intersect1d(made.gpu_ids, before.gpu_ids, return_indices=True)
    number = {name: place for place, name in enumerate(before.names)}
    for place, name in enumerate(made.names):
        if name in number:
            figures[place, to, :first] = before.figures[number[name], of, :first]
    return replace(made, figures=figures)


def spoken(found: frames.Frame) -> frames.Frame:
    """The windows less those that another one of the same start speaks for: better observed, else of the later batch.

    (Windows of different lengths that overlap in part all count: rare, and evidence is a mean.)
    """
    same = (found.gpu_id[1:] == found.gpu_id[:-1]) & (found.start_ms[1:] == found.start_ms[:-1])
    if not same.any():
        return found
    fraction = found.observed_ms / (found.end_ms - found.start_ms)
    order = np.lexsort([found.sequence, found.boot_start_ms, fraction, found.start_ms, found.gpu_id])
    is_last = np.append((np.diff(found.gpu_id[order]) != 0) | (np.diff(found.start_ms[order]) != 0), True)
    keep = np.zeros(len(order), dtype=bool)
    keep[order[is_last]] = True
    return found.where(keep)


def stored_hours(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[tuple[int, int], Hour]:
    """(node, clock hour) -> its stored cells."""
    rows = fetched(
        "SELECT node_id, hour, payload FROM diagnosis_nodecells WHERE node_id = ANY(%s) AND hour >= %s AND hour < %s",
        [list(node_ids), from_ms(start_ms), from_ms(end_ms)],
    )
    found = ((node_id, to_ms(hour), packing.unpack(payload)) for node_id, hour, payload in rows)
    return {(node_id, hour): known for node_id, hour, known in found if known is not None}


def lanes(found: Mapping[int, Held], start_ms: int, end_ms: int, hours: Mapping[tuple[int, int], Hour]) -> Lanes:
    """Every GPU and job of the nodes over [start_ms, end_ms), both clock hours; a job's rows together."""
    whole = cell_states.joined([one.between(start_ms, end_ms).table for one in found.values()])
    count = (end_ms - start_ms) // CELL_MS
    pairs, row = np.unique(np.stack([whole["job_id"], whole["gpu_id"]]), axis=1, return_inverse=True)
    job_id, gpu_id = pairs[0], pairs[1]
    at = (row.ravel(), (whole["start_ms"] - start_ms) // CELL_MS)
    total = np.zeros((len(job_id), count))
    total[at] = sum(whole[name] for name in cell_states.NAMES)
    gpus, jobs = _gpus(gpu_id), _jobs(job_id)
    return Lanes(
        gpu_id=gpu_id,
        job_id=job_id,
        kind=tuple(jobs[int(job)].kind for job in job_id),
        is_serving=np.array([jobs[int(job)].is_serving for job in job_id], dtype=bool),
        idle_w=np.array([gpus[int(gpu)][0] for gpu in gpu_id]),
        limit_w=np.array([gpus[int(gpu)][1] for gpu in gpu_id]),
        memory_bytes=np.array([gpus[int(gpu)][2] for gpu in gpu_id]),
        start_ms=start_ms,
        held=total > 0,
        shared=shared(gpu_id, total > 0),
        warm_up=np.array([warm_up(jobs[int(job)].life_ms) for job in job_id], dtype=np.int64),
        failures=_failures(job_id, jobs),
        cheaper=_cheaper(gpu_id, from_ms(end_ms)),
        age=_ages(total > 0, [jobs[int(job)].start_ms for job in job_id], start_ms),
        figures=_figures(gpu_id, total > 0, start_ms, hours),
        states={state: _share(whole, state, at, total) for state in STATES},
    )


def _share(whole: cell_states.Table, state: str, at: tuple[Ints, Ints], total: Floats) -> Floats:
    """The state's share of the cell's held time; NaN where it was not held."""
    ms = np.zeros(total.shape)
    ms[at] = sum(whole[name] for name, label in zip(cell_states.NAMES, cell_states.LABELS, strict=True) if label[0] == state)
    share: Floats = np.divide(ms, total, out=np.full(total.shape, np.nan), where=total > 0)
    return share


def _ages(is_held: np.ndarray, starts_ms: Sequence[int | None], start_ms: int) -> Ints:
    """Cells since each row's job began: as its scheduler says, else since it is seen to hold the GPU."""
    count = is_held.shape[1]
    first = np.array(
        [
            (start - start_ms) // CELL_MS if start is not None else int(np.argmax(row))
            for start, row in zip(starts_ms, is_held, strict=True)
        ],
        dtype=np.int64,
    ).reshape(-1, 1)
    return np.arange(count, dtype=np.int64) - first


def _figures(gpu_id: Ints, is_held: np.ndarray, start_ms: int, hours: Mapping[tuple[int, int], Hour]) -> dict[str, Floats]:
    """Every figure of cells.Cells for the rows, NaN where the row's job does not hold the GPU; what no hour has is one array of NaN."""
    count = is_held.shape[1]
    names = list(dict.fromkeys(name for hour in hours.values() for name in hour.names if name in _NUMBER))
    number = {name: place for place, name in enumerate(names)}
    found = np.full((len(names), len(gpu_id), count), np.nan)
    order = np.argsort(gpu_id, kind="stable")
    by_gpu = gpu_id[order]
    alike: dict[tuple[int, tuple[str, ...]], list[Hour]] = defaultdict(list)
    for (_, hour_ms), hour in hours.items():
        alike[(hour_ms - start_ms) // CELL_MS, hour.names].append(hour)
    for (first, names_here), several in alike.items():
        if not 0 <= first < count:
            continue
        gpu_ids = np.concatenate([hour.gpu_ids for hour in several])
        low, high = np.searchsorted(by_gpu, gpu_ids), np.searchsorted(by_gpu, gpu_ids, side="right")
        of = np.repeat(np.arange(len(low)), high - low)
        to = order[np.arange(len(of)) + np.repeat(low - np.cumsum(high - low) + (high - low), high - low)]
        figures = np.concatenate([hour.figures for hour in several], axis=1)
        for place, name in enumerate(names_here):
            if name in number:
                found[number[name], to, first : first + CELLS_PER_HOUR] = figures[place, of]
    # what a GPU did for its holder before is no evidence against this one
    found[:, ~is_held] = np.nan
    told = dict.fromkeys(NAMES, np.full(is_held.shape, np.nan)) | dict(zip(names, found, strict=True))
    told[cells.SEEN_MS] = np.nan_to_num(told[cells.SEEN_MS])
    return told


NAMES = (
    cells.SEEN_MS, cells.CLOCK_RATIO, cells.WINDOW_LOW, cells.MEMORY_DROPS, cells.MEMORY_ERRORS, cells.BUSIEST_MINUTE,
    *cells.MEANS, *cells.DIPS, *cells.PEERS, *lows.FIGURES,
    *(f"{name}_max" for name in cells.MAXIMA), *(f"host_{name}" for name in cells.HOST_MEANS),
)  # fmt: skip
_NUMBER = {name: number for number, name in enumerate(NAMES)}


def _gpus(gpu_ids: Iterable[int]) -> dict[int, tuple[float, float, float]]:
    """Bare idle watts, limit in watts and bytes of memory; NaN = not known. Of an instance's power nothing is known."""
    found = {}
    for gpu in GPU.objects.filter(pk__in=[int(gpu) for gpu in set(gpu_ids)]).select_related("model"):
        idle_w = gpu.model.idle_w if gpu.model else None
        limit_w = gpu.power_limit_w if gpu.power_limit_w is not None else gpu.model.limit_w if gpu.model else None
        watts = (None, None) if gpu.parent_id is not None else (idle_w, limit_w)
        found[gpu.pk] = tuple(np.nan if value is None else float(value) for value in (*watts, gpu.memory_total_bytes))
    return found  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Job:
    kind: str
    start_ms: int | None
    is_serving: bool
    series: Series
    life_ms: int | None  # None: it goes on, or nobody said
    failed_ms: int | None  # when it failed, soon after it began; None: it did not


def _jobs(job_ids: Iterable[int]) -> dict[int, _Job]:
    wanted = [int(job) for job in set(job_ids)]
    serving = {job for job, name in GPUProcess.objects.filter(job_id__in=wanted).values_list("job_id", "name") if SERVING.search(name)}
    found = {}
    for job in Job.objects.filter(pk__in=wanted).only("pk", "kind", "start_ms", "end_ms", "state", "user", "name", "labels"):
        is_serving = job.pk in serving or bool(SERVING.search(f"{job.name} {' '.join(map(str, job.labels.values()))}"))
        life_ms = job.end_ms - job.start_ms if job.start_ms is not None and job.end_ms is not None else None
        has_failed = job.state in FAILED and life_ms is not None and life_ms < SHORT_RUN_MS
        found[job.pk] = _Job(job.kind, job.start_ms, is_serving, (job.user, job.name), life_ms, job.end_ms if has_failed else None)
    return found


def _failures(job_id: Ints, jobs: Mapping[int, _Job]) -> Ints:
    """Lanes.failures, with runs on any node."""
    failed = {pk: job for pk, job in jobs.items() if job.failed_ms is not None and job.series[1]}
    if not failed:
        return np.zeros(len(job_id), dtype=np.int64)
    ends = [job.failed_ms or 0 for job in failed.values()]
    alike = Job.objects.filter(
        name__in={job.series[1] for job in failed.values()},
        state__in=FAILED,
        end_ms__gte=min(ends) - ALIKE_MS,
        end_ms__lte=max(ends) + ALIKE_MS,
        end_ms__lt=F("start_ms") + SHORT_RUN_MS,
    )
    found: dict[Series, list[int]] = defaultdict(list)
    for user, name, end_ms in alike.values_list("user", "name", "end_ms"):
        found[user, name].append(end_ms or 0)
    counts = {pk: sum(abs(end - (job.failed_ms or 0)) <= ALIKE_MS for end in found[job.series]) for pk, job in failed.items()}
    return np.array([counts.get(int(job), 0) for job in job_id], dtype=np.int64)


def _cheaper(gpu_ids: Ints, at: datetime) -> tuple[Offers, ...]:
    """Lanes.cheaper, by the rate book of that moment: a GPU model's highest price beside the lowest of this one's."""
    prices = {price.gpu_model_id: price for price in prices_of_models(at)}
    models = dict(GPU.objects.filter(pk__in=gpu_ids.tolist(), parent=None).values_list("pk", "model"))
    offers = {model: cheaper_than(own, prices.values()) for model, own in prices.items()}
    return tuple(offers.get(models.get(int(gpu)) or 0, ()) for gpu in gpu_ids)


def nodes_of_jobs(node_ids: Sequence[int], start_ms: int, end_ms: int) -> list[list[int]]:
    """The nodes, with those that share a job with them in that time, in groups that share none with each other."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT allocation.job_id, array_agg(DISTINCT gpu.node_id ORDER BY gpu.node_id) FROM jobs_allocation AS allocation"
            " JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id WHERE allocation.asserted && int8range(%s, %s) GROUP BY 1",
            [start_ms, end_ms],
        )
        shared = [nodes for _, nodes in cursor.fetchall() if len(nodes) > 1]
    return joined_groups(node_ids, shared)


def joined_groups(node_ids: Sequence[int], shared: Iterable[Sequence[int]]) -> list[list[int]]:
    """The groups that hold one of the nodes, of all that the shared sets tie together; ascending."""
    group = {node_id: {node_id} for node_id in node_ids}
    for nodes in shared:
        union = set(nodes).union(*(group.get(node_id, ()) for node_id in nodes))
        for node_id in union:
            group[node_id] = union
    wanted = {min(group[node_id]): sorted(group[node_id]) for node_id in node_ids}
    return [wanted[first] for first in sorted(wanted)]
