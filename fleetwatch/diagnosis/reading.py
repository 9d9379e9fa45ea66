"""From rows to lanes: the packed cells of nodes, and the ledger's states beside them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection

from fleetwatch.diagnosis import cells, lows, packing
from fleetwatch.diagnosis.cells import CELL_MS, Cells, Floats, Ints
from fleetwatch.diagnosis.features import STATES, Lanes
from fleetwatch.diagnosis.models import NodeCells
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.ledger import cell_states, hour_cells
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.telemetry import frames

CELLS_PER_HOUR = HOUR_MS // CELL_MS
# A pause that had begun before an hour is told from one that begins with it.
CONTEXT_MS = 900_000

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

    def holders(self, gpu_ids: Sequence[int], start_ms: int, count: int) -> Ints:
        """GPUs x cells: the job that holds it, 0 = none; of several any one."""
        held_by = np.zeros((len(gpu_ids), count), dtype=np.int64)
        row = np.searchsorted(np.asarray(gpu_ids, dtype=np.int64), self.table["gpu_id"])
        held_by[row, (self.table["start_ms"] - start_ms) // CELL_MS] = self.table["job_id"]
        return held_by

    def between(self, start_ms: int, end_ms: int) -> "Held":
        """Of the cells that start then."""
        inside = (self.table["start_ms"] >= start_ms) & (self.table["start_ms"] < end_ms)
        return Held(self.node_id, {name: values[inside] for name, values in self.table.items()})


def held(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Held]:
    """Per node what the ledger says of the clock hours in [start_ms, end_ms)."""
    return {node_id: Held(node_id, table) for node_id, table in hour_cells.read(node_ids, start_ms, end_ms).items()}


def node_cells(of: Held, start_ms: int, end_ms: int) -> dict[int, bytes]:
    """Clock hour -> packed cells of the node's held GPUs, for the hours in [start_ms, end_ms), from its windows."""
    here = of.between(start_ms, end_ms)
    gpu_ids, count = here.gpus(), (end_ms - start_ms) // CELL_MS
    found = cells.cells(
        spoken(frames.read(of.node_id, start_ms - CONTEXT_MS, end_ms, cells.COLUMNS)),
        frames.host(of.node_id, start_ms, end_ms),
        gpu_ids=gpu_ids,
        start_ms=start_ms,
        count=count,
        memory_bytes=dict(GPU.objects.filter(pk__in=gpu_ids).values_list("pk", "memory_total_bytes")),
        holders=here.holders(gpu_ids, start_ms, count),
    )
    first_cells = range(0, count, CELLS_PER_HOUR)
    return {start_ms + first * CELL_MS: packed(found, slice(first, first + CELLS_PER_HOUR)) for first in first_cells}


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


def packed(found: Cells, some: slice) -> bytes:
    """Those cells as bytes: a row per GPU and cell."""
    gpu_id = np.repeat(found.gpu_ids, some.stop - some.start)
    return packing.pack(gpu_id, {name: values[:, some].ravel() for name, values in found.figures.items()})


def stored_cells(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[tuple[int, int], dict[str, np.ndarray]]:
    """(node, clock hour) -> its packed cells' columns: `gpu_id` and the figures, a row per GPU and cell."""
    rows = NodeCells.objects.filter(node_id__in=node_ids, hour__gte=from_ms(start_ms), hour__lt=from_ms(end_ms))
    found = (
        (node_id, to_ms(hour), packing.unpack(bytes(payload))) for node_id, hour, payload in rows.values_list("node_id", "hour", "payload")
    )
    return {(node_id, hour): columns for node_id, hour, columns in found if columns is not None}


def unpacked(payload: bytes | memoryview) -> dict[str, np.ndarray]:
    """Columns of packed cells. Raises ValueError for bytes that are none."""
    if (columns := packing.unpack(bytes(payload))) is None:
        raise ValueError("these bytes are no packed cells")
    return columns


def lanes(found: Mapping[int, Held], start_ms: int, end_ms: int, figures: Mapping[tuple[int, int], Mapping[str, np.ndarray]]) -> Lanes:
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
        age=_ages(total > 0, [jobs[int(job)].start_ms for job in job_id], start_ms),
        figures=_figures(gpu_id, total > 0, start_ms, figures),
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


def _figures(
    gpu_id: Ints, is_held: np.ndarray, start_ms: int, stored: Mapping[tuple[int, int], Mapping[str, np.ndarray]]
) -> dict[str, Floats]:
    """Every figure of cells.Cells for the rows, NaN where the row's job does not hold the GPU; what no hour has is one array of NaN."""
    count = is_held.shape[1]
    unread = np.full((len(gpu_id), count), np.nan)
    found = dict.fromkeys(NAMES, unread) | {cells.SEEN_MS: np.zeros_like(unread)}
    order = np.argsort(gpu_id, kind="stable")
    for (_, hour_ms), columns in stored.items():
        first = (hour_ms - start_ms) // CELL_MS
        if not 0 <= first < count or not len(columns["gpu_id"]):
            continue
        here = columns["gpu_id"][::CELLS_PER_HOUR]
        low, high = np.searchsorted(gpu_id[order], here), np.searchsorted(gpu_id[order], here, side="right")
        to = np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)])
        of = np.repeat(np.arange(len(here)), high - low)
        for name, values in columns.items():
            if name in found:
                if found[name] is unread:
                    found[name] = unread.copy()
                found[name][to, first : first + CELLS_PER_HOUR] = values.reshape(-1, CELLS_PER_HOUR)[of]
    # what a GPU did for its holder before is no evidence against this one
    for name, values in found.items():
        if values is not unread:
            np.copyto(values, 0.0 if name == cells.SEEN_MS else np.nan, where=~is_held)
    return found


NAMES = (
    cells.SEEN_MS, cells.CLOCK_RATIO, cells.WINDOW_LOW, cells.MEMORY_DROPS, *cells.MEANS, *cells.DIPS, *cells.PEERS, *lows.FIGURES,
    *(f"{name}_max" for name in cells.MAXIMA), *(f"host_{name}" for name in cells.HOST_MEANS),
)  # fmt: skip


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


def _jobs(job_ids: Iterable[int]) -> dict[int, _Job]:
    wanted = [int(job) for job in set(job_ids)]
    serving = {job for job, name in GPUProcess.objects.filter(job_id__in=wanted).values_list("job_id", "name") if SERVING.search(name)}
    return {
        job.pk: _Job(
            job.kind, job.start_ms, job.pk in serving or bool(SERVING.search(f"{job.name} {' '.join(map(str, job.labels.values()))}"))
        )
        for job in Job.objects.filter(pk__in=wanted).only("pk", "kind", "start_ms", "name", "labels")
    }


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
