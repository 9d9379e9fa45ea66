"""From rows to lanes: the packed cells of nodes, and the ledger's states beside them."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fleetwatch.diagnosis import lane_facts
from fleetwatch.diagnosis.judgement import cell_figures, packing, pauses, single_values
from fleetwatch.diagnosis.judgement.array_tools import ratio, rows_among
from fleetwatch.diagnosis.judgement.lane_figures import NOWHERE, Figures
from fleetwatch.diagnosis.judgement.lanes import STATES, Lanes, shared, warm_up
from fleetwatch.diagnosis.judgement.packing import Hour
from fleetwatch.diagnosis.judgement.window_places import Grid
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS, CELLS_PER_HOUR
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.telemetry import frames

WHOLE = 7  # sevenths of a GPU

# A pause that had begun before is told from one that begins; of a longer one so much counts.
CONTEXT_MS = 900_000
CONTEXT_STEP_MS = 10_000  # nodes with as much of it are worked on together
NODE_HOURS_AT_ONCE = 16  # whose windows are worked on together: arrays that fit no cache cost time

Key = tuple[int, int]  # node and clock hour


@dataclass(frozen=True, slots=True)
class Held:
    """What the ledger says of a node's held GPUs, cell by cell: rows of ledger.cell_states, by
    start.
    """

    table: cell_states.Table

    def gpus(self) -> Ints:
        """The GPUs that some job held."""
        return np.unique(self.table["gpu_id"])

    def hours(self) -> list[int]:
        """The clock hours in which some job held one, ascending."""
        hours: list[int] = np.unique(self.table["start_ms"] // HOUR_MS * HOUR_MS).tolist()
        return hours

    def holders(self, gpu_ids: Ints, start_ms: int, count: int) -> Ints:
        """GPUs x cells: the job that holds it, 0 = none; of several any one."""
        held_by = np.zeros((len(gpu_ids), count), dtype=np.int64)
        row = np.searchsorted(gpu_ids, self.table["gpu_id"])
        held_by[row, (self.table["start_ms"] - start_ms) // CELL_MS] = self.table["job_id"]
        return held_by

    def digests(self, hour_ms: int) -> tuple[int, ...]:
        """Of each cell of a clock hour what changes when the ledger says something else of it."""
        table = self.between(hour_ms, hour_ms + HOUR_MS).table
        rows = np.stack([table[name] for name in sorted(table)], axis=1)
        starts = hour_ms + np.arange(CELLS_PER_HOUR + 1) * CELL_MS
        edges = np.searchsorted(table["start_ms"], starts).tolist()
        return tuple(zlib.crc32(rows[first:end].data) for first, end in pairwise(edges))

    def between(self, start_ms: int, end_ms: int) -> "Held":
        """Of the cells that start then."""
        inside = slice(*np.searchsorted(self.table["start_ms"], (start_ms, end_ms)).tolist())
        return Held({name: values[inside] for name, values in self.table.items()})


def held(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Held]:
    """Per node what the ledger says of the clock hours in [start_ms, end_ms)."""
    tables = hour_cells.read(node_ids, start_ms, end_ms)
    return {node_id: Held(table) for node_id, table in tables.items()}


def before(gpu_ids: Ints, hour: Hour | None, cell_ms: int) -> pauses.Before:
    """What the hour says of these GPUs' last windows, in its cell that begins then; nothing where
    it does not tell of each of them.
    """
    if hour is None or not np.isin(gpu_ids, hour.gpu_ids).all():
        return pauses.NOTHING
    names = (pauses.LAST_START, pauses.SO_FAR)
    if not set(names) <= set(hour.names):
        return pauses.NOTHING
    rows = np.searchsorted(hour.gpu_ids, gpu_ids)
    cell = cell_ms % HOUR_MS // CELL_MS
    last_s, so_far_s = (
        hour.figures[hour.names.index(name), rows, cell].astype(np.float64) for name in names
    )
    if np.isnan(last_s).any():
        return pauses.NOTHING
    last_ms = cell_ms + np.rint(last_s * 1000).astype(np.int64)
    return pauses.Before(gpu_ids, last_ms, np.minimum(so_far_s, CONTEXT_MS / 1000))


def context_ms(before: pauses.Before, start_ms: int) -> int:
    """How far back windows are needed to make cells from `start_ms` on: to the last one of each
    GPU, where its pause is known.
    """
    if not len(before.gpu_ids):
        return CONTEXT_MS
    return -((int(before.start_ms.min()) - start_ms) // CONTEXT_STEP_MS) * CONTEXT_STEP_MS


def made_hours(
    held: Mapping[int, Held],
    start_ms: int,
    end_ms: int,
    context_ms: int = CONTEXT_MS,
    before: pauses.Before = pauses.NOTHING,
) -> dict[Key, Hour]:
    """The cells of nodes' held GPUs, from windows, up to the end of a clock hour.

    The first hour may be cut, at a cell: nothing is told of those before. `before`: what is known
    of the windows before it.
    """
    made: dict[Key, Hour] = {}
    at_once = max(NODE_HOURS_AT_ONCE * HOUR_MS // (end_ms - start_ms), 1)
    nodes = list(held.items())
    for first in range(0, len(nodes), at_once):
        portion = dict(nodes[first : first + at_once])
        made |= _made_hours(portion, start_ms, end_ms, context_ms, before)
    return made


def _made_hours(
    held: Mapping[int, Held], start_ms: int, end_ms: int, context_ms: int, before: pauses.Before
) -> dict[Key, Hour]:
    first_ms = start_ms // HOUR_MS * HOUR_MS
    here = {node_id: node.between(first_ms, end_ms) for node_id, node in held.items()}
    gpus = [node.gpus() for node in here.values()]
    boards = lane_facts.gpus(np.concatenate(gpus))
    count = (end_ms - start_ms) // CELL_MS
    holders = [
        node.between(start_ms, end_ms).holders(gpu_ids, start_ms, count)
        for node, gpu_ids in zip(here.values(), gpus, strict=True)
    ]
    grid = Grid(
        gpu_ids=np.concatenate(gpus),
        host_of=np.repeat(np.arange(len(gpus)), [len(gpu_ids) for gpu_ids in gpus]),
        memory_bytes=boards.at(np.concatenate(gpus)).memory_bytes,
        holders=_by_node(holders),
        start_ms=start_ms,
    )
    windows, hosts = _frames(list(held), start_ms - context_ms, end_ms)
    cells = cell_figures.cells(_filled(windows, boards), hosts, grid, before)
    shape = (len(NAMES), len(grid.gpu_ids), (end_ms - first_ms) // CELL_MS)
    figures = np.full(shape, np.nan, dtype=np.float32)
    for row, name in zip(figures, NAMES, strict=True):
        row[:, -count:] = cells[name]
    of_node = np.split(figures, np.cumsum([len(gpu_ids) for gpu_ids in gpus])[:-1], axis=1)
    hours: dict[Key, Hour] = {}
    for (node_id, node), gpu_ids, own in zip(here.items(), gpus, of_node, strict=True):
        for hour_ms in range(first_ms, end_ms, HOUR_MS):
            first = (hour_ms - first_ms) // CELL_MS
            cells_of_hour = own[:, :, first : first + CELLS_PER_HOUR]
            digests = node.digests(hour_ms)
            hours[node_id, hour_ms] = Hour(gpu_ids, NAMES, cells_of_hour, digests)
    return hours


def _frames(
    node_ids: Sequence[int], start_ms: int, end_ms: int
) -> tuple[frames.Frame, list[frames.HostFrame]]:
    """The nodes' windows, and of each its host samples."""
    columns = (cell_figures.COLUMNS, cell_figures.HOST_MEANS)
    read = list(frames.of_nodes(node_ids, start_ms, end_ms, *columns))
    return frames.together([spoken(frame) for _, frame, _ in read]), [host for _, _, host in read]


def _filled(windows: frames.Frame, boards: lane_facts.GPUs) -> frames.Frame:
    """With what a sender of single values does not tell; of a GPU that no job held nobody asks."""
    row = rows_among(boards.ids, windows.gpu_id)
    idle_w, limit_w = (np.append(watts, np.nan)[row] for watts in (boards.idle_w, boards.limit_w))
    return replace(windows, columns=single_values.filled(windows, idle_w=idle_w, limit_w=limit_w))


def _by_node(holders: Sequence[Ints]) -> Ints:
    """A number for each holder of each node, 0 = nobody: a job's GPUs on other nodes are no
    peers.
    """
    numbers = []
    used = 1
    for job_id in holders:
        distinct, number = np.unique(job_id, return_inverse=True)
        numbers.append(np.where(job_id > 0, number.reshape(job_id.shape) + used, 0))
        used += len(distinct)
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


def spoken(windows: frames.Frame) -> frames.Frame:
    """The windows less those that another one of the same start speaks for: better observed, else
    of the later batch.

    (Windows of different lengths that overlap in part all count: rare, and evidence is a mean.)
    """
    if not _is_same(windows.gpu_id, windows.start_ms).any():
        return windows
    fraction = windows.observed_ms / (windows.end_ms - windows.start_ms)
    order = np.lexsort(
        [windows.sequence, windows.boot_start_ms, fraction, windows.start_ms, windows.gpu_id]
    )
    is_last = np.append(~_is_same(windows.gpu_id[order], windows.start_ms[order]), True)
    keep = np.zeros(len(order), dtype=bool)
    keep[order[is_last]] = True
    return windows.where(keep)


def _is_same(gpu_id: Ints, start_ms: Ints) -> Mask:
    """Where the next window is of the same GPU and start."""
    is_same: Mask = (np.diff(gpu_id) == 0) & (np.diff(start_ms) == 0)
    return is_same


def stored_hours(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[Key, Hour]:
    """The stored cells of nodes."""
    rows = fetched(
        "SELECT node_id, hour, payload FROM diagnosis_nodecells WHERE node_id = ANY(%s) AND hour >="
        " %s AND hour < %s",
        [list(node_ids), from_ms(start_ms), from_ms(end_ms)],
    )
    hours = {(node_id, to_ms(hour)): packing.unpack(payload) for node_id, hour, payload in rows}
    return {key: hour for key, hour in hours.items() if hour is not None}


def lanes(held: Mapping[int, Held], start_ms: int, end_ms: int, hours: Mapping[Key, Hour]) -> Lanes:
    """Every GPU and job of the nodes over [start_ms, end_ms), both clock hours; a job's rows
    together.
    """
    table = cell_states.together([node.between(start_ms, end_ms).table for node in held.values()])
    count = (end_ms - start_ms) // CELL_MS
    job_id, gpu_id, row = _holders(table)
    at = (row, (table["start_ms"] - start_ms) // CELL_MS)
    total = np.zeros((len(job_id), count))
    total[at] = sum(table[name] for name in cell_states.NAMES)
    is_held = total > 0
    boards = lane_facts.gpus(gpu_id).at(gpu_id)
    jobs = lane_facts.jobs(job_id)
    of_lane = [jobs[job] for job in job_id.tolist()]
    is_shared = shared(gpu_id, is_held)
    is_part = is_shared | (boards.sevenths < WHOLE)[:, None]
    return Lanes(
        gpu_id=gpu_id,
        job_id=job_id,
        kind=np.array([job.kind for job in of_lane], dtype=np.str_),
        is_serving=np.array([job.is_serving for job in of_lane], dtype=bool),
        idle_w=boards.idle_w,
        limit_w=boards.limit_w,
        memory_bytes=boards.memory_bytes,
        sevenths=boards.sevenths,
        start_ms=start_ms,
        held=is_held,
        held_ms=np.where(is_part & is_held, CELL_MS, total),
        shared=is_shared,
        warm_up=np.array([warm_up(job.life_ms) for job in of_lane], dtype=np.int64),
        is_over=np.array([job.life_ms is not None for job in of_lane], dtype=bool),
        failures=lane_facts.failures(job_id, jobs),
        cheaper=lane_facts.cheaper(boards, from_ms(end_ms)),
        age=_ages(is_held, [job.start_ms for job in of_lane], start_ms),
        figures=_figures(gpu_id, is_held, start_ms, hours),
        states={state: _share(table, state, at, total) for state in STATES},
    )


def _holders(table: cell_states.Table) -> tuple[Ints, Ints, Ints]:
    """Each job and GPU that it held, ascending, and which of them each row of the table is."""
    jobs, job = np.unique(table["job_id"], return_inverse=True)
    gpus, gpu = np.unique(table["gpu_id"], return_inverse=True)
    pairs, row = np.unique(job * len(gpus) + gpu, return_inverse=True)
    return jobs[pairs // len(gpus)], gpus[pairs % len(gpus)], row


def _share(table: cell_states.Table, state: str, at: tuple[Ints, Ints], total: Floats) -> Floats:
    """The state's share of the cell's held time; NaN where it was not held."""
    ms = np.zeros(total.shape)
    labels = zip(cell_states.NAMES, cell_states.LABELS, strict=True)
    ms[at] = sum(table[name] for name, label in labels if label[0] == state)
    return ratio(ms, total)


def _ages(is_held: Mask, starts_ms: Sequence[int | None], start_ms: int) -> Ints:
    """Cells since each row's job began: as its scheduler says, else since it is seen to hold the
    GPU.
    """
    first = [
        seen if began_ms is None else (began_ms - start_ms) // CELL_MS
        for began_ms, seen in zip(starts_ms, is_held.argmax(axis=1).tolist(), strict=True)
    ]
    return np.arange(is_held.shape[1]) - np.array(first, dtype=np.int64).reshape(-1, 1)


def _figures(gpu_id: Ints, is_held: Mask, start_ms: int, hours: Mapping[Key, Hour]) -> Figures:
    """Every figure of cell_figures for the rows, NaN where the row's job does not hold the GPU."""
    span = range(start_ms, start_ms + is_held.shape[1] * CELL_MS, HOUR_MS)
    alike: dict[tuple[str, ...], list[tuple[int, Hour]]] = defaultdict(list)
    for (_, hour_ms), hour in hours.items():
        if hour_ms in span:
            alike[hour.names].append((span.index(hour_ms), hour))
    every = [numbered for several in alike.values() for numbered in several]
    read = dict.fromkeys(name for names in alike for name in names if name in _NAMES)
    row = {name: place for place, name in enumerate(read)}
    size = sum(len(hour.gpu_ids) for _, hour in every) * CELLS_PER_HOUR
    # single precision, as the hours have it: what is asked for becomes double
    kept = np.full((len(row), size + 1), np.nan, dtype=np.float32)
    end = 0
    for names, several in alike.items():
        blocks = [hour.figures.reshape(len(names), -1) for _, hour in several]
        values = np.concatenate(blocks, axis=1)
        here = [place for place, name in enumerate(names) if name in row]
        rows = [row[names[place]] for place in here]
        first = end
        end += values.shape[1]
        kept[rows, first:end] = values if len(here) == len(names) else values[here]
    return Figures(kept, {name: row.get(name) for name in NAMES}, _places(gpu_id, is_held, every))


def _places(gpu_id: Ints, is_held: Mask, hours: Sequence[tuple[int, Hour]]) -> Ints:
    """Where each row's cells stand among those of all GPUs of the hours (the number of each, and
    its cells), one hour after the other.
    """
    gpus, gpu = np.unique(gpu_id, return_inverse=True)
    gpu_ids = np.concatenate([np.zeros(0, dtype=np.int64), *(hour.gpu_ids for _, hour in hours)])
    number = np.repeat([number for number, _ in hours], [len(hour.gpu_ids) for _, hour in hours])
    # of each GPU and hour its first cell; in the row after them those that nobody asks for
    first = np.full((len(gpus) + 1, is_held.shape[1] // CELLS_PER_HOUR), NOWHERE)
    starts = np.arange(len(gpu_ids)) * CELLS_PER_HOUR
    first[rows_among(gpus, gpu_ids), number.astype(np.int64)] = starts
    of_row = first[gpu][:, :, None]
    place = np.where(of_row < 0, NOWHERE, of_row + np.arange(CELLS_PER_HOUR)).reshape(is_held.shape)
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
    rows = fetched(
        "SELECT array_agg(DISTINCT gpu.node_id ORDER BY gpu.node_id) FROM jobs_allocation AS"
        " allocation JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id WHERE allocation.held"
        " && int8range(%s, %s) GROUP BY allocation.job_id HAVING count(DISTINCT gpu.node_id) > 1",
        [start_ms, end_ms],
    )
    return joined_groups(node_ids, [nodes for (nodes,) in rows])


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
