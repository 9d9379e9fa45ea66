"""From rows to lanes: the packed cells of nodes, and the ledger's states beside them."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from django.db import connection

from fleetwatch.diagnosis import lane_facts
from fleetwatch.diagnosis.judgement import cell_figures, packing, pauses, single_values
from fleetwatch.diagnosis.judgement.lane_figures import NOWHERE, Figures
from fleetwatch.diagnosis.judgement.lanes import STATES, Lanes, shared, warm_up
from fleetwatch.diagnosis.judgement.packing import Hour
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Floats, Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.telemetry import frames

WHOLE = 7  # sevenths of a GPU
CELLS_PER_HOUR = HOUR_MS // CELL_MS
# A pause that had begun before is told from one that begins; of a longer one so much counts.
CONTEXT_MS = 900_000
CONTEXT_STEP_MS = 10_000  # nodes with as much of it are worked on together
NODE_HOURS_AT_ONCE = 16  # whose windows are worked on together: arrays that fit no cache cost time


@dataclass(frozen=True, slots=True)
class Held:
    """What the ledger says of a node's held GPUs, cell by cell: rows of ledger.cell_states, by
    start.
    """

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
        edges = np.searchsorted(
            table["start_ms"], hour_ms + np.arange(CELLS_PER_HOUR + 1) * CELL_MS
        ).tolist()
        return tuple(zlib.crc32(rows[first:end].data) for first, end in pairwise(edges))

    def between(self, start_ms: int, end_ms: int) -> "Held":
        """Of the cells that start then."""
        inside = slice(*np.searchsorted(self.table["start_ms"], (start_ms, end_ms)).tolist())
        return Held(self.node_id, {name: values[inside] for name, values in self.table.items()})


def held(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Held]:
    """Per node what the ledger says of the clock hours in [start_ms, end_ms)."""
    return {
        node_id: Held(node_id, table)
        for node_id, table in hour_cells.read(node_ids, start_ms, end_ms).items()
    }


def before(gpu_ids: Ints, known: Hour | None, cell_ms: int) -> pauses.Before:
    """What the hour says of these GPUs' last windows, in its cell that begins then; nothing where
    it does not tell of each of them.
    """
    names = (pauses.LAST_START, pauses.SO_FAR)
    if (
        known is None
        or not set(names) <= set(known.names)
        or not np.isin(gpu_ids, known.gpu_ids).all()
    ):
        return pauses.NOTHING
    rows, cell = np.searchsorted(known.gpu_ids, gpu_ids), cell_ms % HOUR_MS // CELL_MS
    last_s, so_far_s = (
        known.figures[known.names.index(name), rows, cell].astype(np.float64) for name in names
    )
    if np.isnan(last_s).any():
        return pauses.NOTHING
    return pauses.Before(
        gpu_ids,
        cell_ms + np.rint(last_s * 1000).astype(np.int64),
        np.minimum(so_far_s, CONTEXT_MS / 1000),
    )


def context_ms(before: pauses.Before, start_ms: int) -> int:
    """How far back windows are needed to make cells from `start_ms` on: to the last one of each
    GPU, where its pause is known.
    """
    if not len(before.gpu_ids):
        return CONTEXT_MS
    return -((int(before.start_ms.min()) - start_ms) // CONTEXT_STEP_MS) * CONTEXT_STEP_MS


def made_hours(
    found: Sequence[Held],
    start_ms: int,
    end_ms: int,
    context_ms: int = CONTEXT_MS,
    before: pauses.Before = pauses.NOTHING,
) -> dict[tuple[int, int], Hour]:
    """(node, clock hour) -> the cells of its held GPUs, from windows, up to the end of a clock
    hour.

    The first hour may be cut, at a cell: nothing is told of those before. `before`: what is known
    of the windows before it.
    """
    made: dict[tuple[int, int], Hour] = {}
    at_once = max(NODE_HOURS_AT_ONCE * HOUR_MS // (end_ms - start_ms), 1)
    for first in range(0, len(found), at_once):
        made |= _made_hours(found[first : first + at_once], start_ms, end_ms, context_ms, before)
    return made


def _made_hours(
    found: Sequence[Held], start_ms: int, end_ms: int, context_ms: int, before: pauses.Before
) -> dict[tuple[int, int], Hour]:
    first_ms, count = start_ms // HOUR_MS * HOUR_MS, (end_ms - start_ms) // CELL_MS
    here = [one.between(first_ms, end_ms) for one in found]
    gpus = [np.asarray(one.gpus(), dtype=np.int64) for one in here]
    place = {one.node_id: number for number, one in enumerate(found)}
    windows, hosts = [], []
    for _, frame, host in frames.of_nodes(
        list(place), start_ms - context_ms, end_ms, cell_figures.COLUMNS, cell_figures.HOST_MEANS
    ):
        windows.append(spoken(frame))
        hosts.append(host)
    gpu_ids = np.concatenate(gpus)
    boards = lane_facts.gpus(gpu_ids)
    holders = [
        one.between(start_ms, end_ms).holders(gpus[n], start_ms, count)
        for n, one in enumerate(here)
    ]
    told = cell_figures.cells(
        _filled(frames.together(windows), boards),
        hosts,
        gpu_ids=gpu_ids.tolist(),
        host_of=np.repeat(np.arange(len(gpus)), [len(one) for one in gpus]),
        start_ms=start_ms,
        count=count,
        memory_bytes=dict(zip(boards.ids.tolist(), boards.memory_bytes.tolist(), strict=True)),
        holders=_by_node(holders),
        before=before,
    )
    figures = np.full(
        (len(NAMES), len(gpu_ids), (end_ms - first_ms) // CELL_MS), np.nan, dtype=np.float32
    )
    begins = (start_ms - first_ms) // CELL_MS
    for number, name in enumerate(NAMES):
        figures[number, :, begins:] = told.figures[name]
    rows = np.cumsum([0, *(len(one) for one in gpus)])
    return {
        (one.node_id, first_ms + hour * HOUR_MS): Hour(
            gpus[number],
            NAMES,
            figures[
                :,
                rows[number] : rows[number + 1],
                hour * CELLS_PER_HOUR : (hour + 1) * CELLS_PER_HOUR,
            ],
            one.digests(first_ms + hour * HOUR_MS),
        )
        for number, one in enumerate(here)
        for hour in range(figures.shape[2] // CELLS_PER_HOUR)
    }


def _filled(windows: frames.Frame, boards: lane_facts.GPUs) -> frames.Frame:
    """With what a sender of single values does not tell; of a GPU that no job held nobody asks."""
    row = np.searchsorted(boards.ids, windows.gpu_id)
    row[np.append(boards.ids, -1)[row] != windows.gpu_id] = len(boards.ids)
    idle_w, limit_w = (np.append(watts, np.nan)[row] for watts in (boards.idle_w, boards.limit_w))
    return replace(windows, columns=single_values.filled(windows, idle_w=idle_w, limit_w=limit_w))


def _by_node(holders: Sequence[Ints]) -> Ints:
    """A number for each holder of each node, 0 = nobody: a job's GPUs on other nodes are no
    peers.
    """
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
    _, to, of = np.intersect1d(
        made.gpu_ids, before.gpu_ids, assume_unique=True, return_indices=True
    )
    number = {name: place for place, name in enumerate(before.names)}
    places = np.array(
        [(place, number[name]) for place, name in enumerate(made.names) if name in number],
        dtype=np.int64,
    ).reshape(-1, 2)
    figures[places[:, :1], to, :first] = before.figures[places[:, 1:], of, :first]
    return replace(made, figures=figures)


def spoken(found: frames.Frame) -> frames.Frame:
    """The windows less those that another one of the same start speaks for: better observed, else
    of the later batch.

    (Windows of different lengths that overlap in part all count: rare, and evidence is a mean.)
    """
    same = (found.gpu_id[1:] == found.gpu_id[:-1]) & (found.start_ms[1:] == found.start_ms[:-1])
    if not same.any():
        return found
    fraction = found.observed_ms / (found.end_ms - found.start_ms)
    order = np.lexsort(
        [found.sequence, found.boot_start_ms, fraction, found.start_ms, found.gpu_id]
    )
    is_last = np.append(
        (np.diff(found.gpu_id[order]) != 0) | (np.diff(found.start_ms[order]) != 0), True
    )
    keep = np.zeros(len(order), dtype=bool)
    keep[order[is_last]] = True
    return found.where(keep)


def stored_hours(
    node_ids: Sequence[int], start_ms: int, end_ms: int
) -> dict[tuple[int, int], Hour]:
    """(node, clock hour) -> its stored cells."""
    rows = fetched(
        "SELECT node_id, hour, payload FROM diagnosis_nodecells WHERE node_id = ANY(%s) AND hour >="
        " %s AND hour < %s",
        [list(node_ids), from_ms(start_ms), from_ms(end_ms)],
    )
    found = ((node_id, to_ms(hour), packing.unpack(payload)) for node_id, hour, payload in rows)
    return {(node_id, hour): known for node_id, hour, known in found if known is not None}


def lanes(
    found: Mapping[int, Held], start_ms: int, end_ms: int, hours: Mapping[tuple[int, int], Hour]
) -> Lanes:
    """Every GPU and job of the nodes over [start_ms, end_ms), both clock hours; a job's rows
    together.
    """
    whole = cell_states.together([one.between(start_ms, end_ms).table for one in found.values()])
    count = (end_ms - start_ms) // CELL_MS
    (job_ids, job), (gpu_ids, gpu) = (
        np.unique(whole[name], return_inverse=True) for name in ("job_id", "gpu_id")
    )
    pairs, row = np.unique(job * len(gpu_ids) + gpu, return_inverse=True)
    job_id, gpu_id = job_ids[pairs // len(gpu_ids)], gpu_ids[pairs % len(gpu_ids)]
    at = (row, (whole["start_ms"] - start_ms) // CELL_MS)
    total = np.zeros((len(job_id), count))
    total[at] = sum(whole[name] for name in cell_states.NAMES)
    gpus, jobs = lane_facts.gpus(gpu_id).at(gpu_id), lane_facts.jobs(job_id)
    is_shared = shared(gpu_id, total > 0)
    is_part = is_shared | (gpus.sevenths < WHOLE)[:, None]
    said = [jobs[job] for job in job_id.tolist()]
    return Lanes(
        gpu_id=gpu_id,
        job_id=job_id,
        kind=np.array([one.kind for one in said], dtype=np.str_),
        is_serving=np.array([one.is_serving for one in said], dtype=bool),
        idle_w=gpus.idle_w,
        limit_w=gpus.limit_w,
        memory_bytes=gpus.memory_bytes,
        sevenths=gpus.sevenths,
        start_ms=start_ms,
        held=total > 0,
        held_ms=np.where(is_part & (total > 0), CELL_MS, total),
        shared=is_shared,
        warm_up=np.array([warm_up(one.life_ms) for one in said], dtype=np.int64),
        is_over=np.array([one.life_ms is not None for one in said], dtype=bool),
        failures=lane_facts.failures(job_id, jobs),
        cheaper=lane_facts.cheaper(gpus, from_ms(end_ms)),
        age=_ages(total > 0, [one.start_ms for one in said], start_ms),
        figures=_figures(gpu_id, total > 0, start_ms, hours),
        states={state: _share(whole, state, at, total) for state in STATES},
    )


def _share(whole: cell_states.Table, state: str, at: tuple[Ints, Ints], total: Floats) -> Floats:
    """The state's share of the cell's held time; NaN where it was not held."""
    ms = np.zeros(total.shape)
    ms[at] = sum(
        whole[name]
        for name, label in zip(cell_states.NAMES, cell_states.LABELS, strict=True)
        if label[0] == state
    )
    share: Floats = np.divide(ms, total, out=np.full(total.shape, np.nan), where=total > 0)
    return share


def _ages(is_held: np.ndarray, starts_ms: Sequence[int | None], start_ms: int) -> Ints:
    """Cells since each row's job began: as its scheduler says, else since it is seen to hold the
    GPU.
    """
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
    gpu_id: Ints, is_held: np.ndarray, start_ms: int, hours: Mapping[tuple[int, int], Hour]
) -> Figures:
    """Every figure of cell_figures for the rows, NaN where the row's job does not hold the GPU."""
    span = range(start_ms, start_ms + is_held.shape[1] * CELL_MS, HOUR_MS)
    alike: dict[tuple[str, ...], list[tuple[int, Hour]]] = defaultdict(list)
    for (_, hour_ms), hour in hours.items():
        if hour_ms in span:
            alike[hour.names].append((span.index(hour_ms), hour))
    row = {
        name: row
        for row, name in enumerate(
            dict.fromkeys(name for names in alike for name in names if name in _NAMES)
        )
    }
    every = [(number, hour) for several in alike.values() for number, hour in several]
    size = sum(len(hour.gpu_ids) for _, hour in every) * CELLS_PER_HOUR
    # single precision, as the hours have it: what is asked for becomes double
    kept = np.full((len(row), size + 1), np.nan, dtype=np.float32)
    end = 0
    for names, several in alike.items():
        values = np.concatenate(
            [hour.figures.reshape(len(names), -1) for _, hour in several], axis=1
        )
        here = [place for place, name in enumerate(names) if name in row]
        first, end = end, end + values.shape[1]
        kept[[row[names[place]] for place in here], first:end] = (
            values if len(here) == len(names) else values[here]
        )
    return Figures(kept, {name: row.get(name) for name in NAMES}, _places(gpu_id, is_held, every))


def _places(gpu_id: Ints, is_held: np.ndarray, hours: Sequence[tuple[int, Hour]]) -> Ints:
    """Where each row's cells stand among those of all GPUs of the hours (the number of each, and
    its cells), one hour after the other.
    """
    gpus, gpu = np.unique(gpu_id, return_inverse=True)
    first = np.full((len(gpus), is_held.shape[1] // CELLS_PER_HOUR), NOWHERE)
    told = np.concatenate([np.zeros(0, dtype=np.int64), *(hour.gpu_ids for _, hour in hours)])
    number = np.repeat(
        [number for number, _ in hours], [len(hour.gpu_ids) for _, hour in hours]
    ).astype(np.int64)
    row = np.searchsorted(gpus, told)
    known = np.append(gpus, NOWHERE)[row] == told
    first[row[known], number[known]] = np.flatnonzero(known) * CELLS_PER_HOUR
    first = first[gpu]
    cell = np.arange(CELLS_PER_HOUR)
    place = np.where(first[:, :, None] < 0, NOWHERE, first[:, :, None] + cell).reshape(
        is_held.shape
    )
    # what a GPU did for its holder before is no evidence against this one
    return np.where(is_held, place, NOWHERE)


NAMES = (
    cell_figures.SEEN_MS, cell_figures.CLOCK_RATIO, cell_figures.WINDOW_LOW,
    cell_figures.MEMORY_DROPS,
    cell_figures.MEMORY_ERRORS, cell_figures.BUSIEST_MINUTE, cell_figures.ENGINES,
    *cell_figures.MEANS, *cell_figures.DIPS, *cell_figures.PEERS, *pauses.FIGURES,
    *(f"{name}_max" for name in cell_figures.MAXIMA),
    *(f"host_{name}" for name in cell_figures.HOST_MEANS),
)  # fmt: skip
_NAMES = frozenset(NAMES)


def nodes_of_jobs(node_ids: Sequence[int], start_ms: int, end_ms: int) -> list[list[int]]:
    """The nodes, with those that share a job with them in that time, in groups that share none with
    each other.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT allocation.job_id, array_agg(DISTINCT gpu.node_id ORDER BY gpu.node_id) FROM"
            " jobs_allocation AS allocation JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id"
            " WHERE allocation.held && int8range(%s, %s) GROUP BY 1",
            [start_ms, end_ms],
        )
        shared = [nodes for _, nodes in cursor.fetchall() if len(nodes) > 1]
    return joined_groups(node_ids, shared)


def joined_groups(node_ids: Sequence[int], shared: Iterable[Sequence[int]]) -> list[list[int]]:
    """The groups that hold one of the nodes, of all that the shared sets tie together;
    ascending.
    """
    group = {node_id: {node_id} for node_id in node_ids}
    for nodes in shared:
        union = set(nodes).union(*(group.get(node_id, ()) for node_id in nodes))
        for node_id in union:
            group[node_id] = union
    wanted = {min(group[node_id]): sorted(group[node_id]) for node_id in node_ids}
    return [wanted[first] for first in sorted(wanted)]
