"""From rows to lanes: the packed cells of nodes, and the ledger's states beside them."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis import lane_facts
from fleetwatch.diagnosis.judgement import cell_figures, packing, pauses, single_values
from fleetwatch.diagnosis.judgement.array_tools import ratio, rows_among
from fleetwatch.diagnosis.judgement.cell_figures import NAMES
from fleetwatch.diagnosis.judgement.lane_figures import NOWHERE, Figures
from fleetwatch.diagnosis.judgement.lanes import STATES, Lanes, shared, warm_up
from fleetwatch.diagnosis.judgement.packing import Hour
from fleetwatch.diagnosis.judgement.window_places import Grid
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS, CELLS_PER_HOUR
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms, from_ms, to_ms
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


def table_of(held: Mapping[int, Held], start_ms: int, end_ms: int) -> cell_states.Table:
    """The rows of the nodes' cells that start then, one node after the other, and the column
    `node_id`.
    """
    tables = [node.between(start_ms, end_ms).table for node in held.values()]
    node_id = np.repeat([*held], [len(table["start_ms"]) for table in tables])
    return {**cell_states.together(tables), "node_id": node_id}


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
    rows = np.searchsorted(hour.gpu_ids, gpu_ids)
    cell = cell_ms % HOUR_MS // CELL_MS
    last_s, so_far_s, quiet_s = (
        hour.of(name)[rows, cell].astype(np.float64)
        for name in (pauses.LAST_START, pauses.SO_FAR, pauses.QUIET_SO_FAR)
    )
    if np.isnan(last_s).any():
        return pauses.NOTHING
    last_ms = cell_ms + np.rint(last_s * 1000).astype(np.int64)
    most_s = CONTEXT_MS / 1000
    return pauses.Before(
        gpu_ids, last_ms, np.minimum(so_far_s, most_s), np.minimum(quiet_s, most_s)
    )


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
        made |= _made_hours(portion, start_ms, end_ms, before)
    return made


def _made_hours(
    held: Mapping[int, Held], start_ms: int, end_ms: int, before: pauses.Before
) -> dict[Key, Hour]:
    first_ms = floor_hour_ms(start_ms)
    here = {node_id: node.between(first_ms, end_ms) for node_id, node in held.items()}
    boards = lane_facts.gpus(np.concatenate([node.table["gpu_id"] for node in here.values()]))
    grid = _grid(here, boards, start_ms, end_ms)
    windows, hosts = _frames(list(held), start_ms - context_ms(before, start_ms), end_ms)
    cells = cell_figures.cells(filled(windows, boards), hosts, grid, before)
    return _in_hours(here, grid, cells)


def _in_hours(
    nodes: Mapping[int, Held], grid: Grid, cells: Mapping[str, Floats]
) -> dict[Key, Hour]:
    """The cells by node and clock hour; NaN where the first hour begins before the grid."""
    first_ms = floor_hour_ms(grid.start_ms)
    block = _block(cells, grid, (grid.start_ms - first_ms) // CELL_MS)
    hours: dict[Key, Hour] = {}
    for host, (node_id, node) in enumerate(nodes.items()):
        own = slice(*np.searchsorted(grid.host_of, (host, host + 1)))
        for first in range(0, block.shape[2], CELLS_PER_HOUR):
            hour_ms = first_ms + first * CELL_MS
            figures = block[:, own, first : first + CELLS_PER_HOUR]
            hours[node_id, hour_ms] = Hour(grid.gpu_ids[own], figures, node.digests(hour_ms))
    return hours


def _block(cells: Mapping[str, Floats], grid: Grid, missing: int) -> NDArray[np.float32]:
    """NAMES x GPUs x cells, of which the first, so many, are NaN."""
    block = np.full((len(NAMES), len(grid.gpu_ids), missing + grid.count), np.nan, np.float32)
    for figure, name in zip(block, NAMES, strict=True):
        figure[:, missing:] = cells[name]
    return block


def _grid(nodes: Mapping[int, Held], boards: lane_facts.GPUs, start_ms: int, end_ms: int) -> Grid:
    """The cells of [start_ms, end_ms) of the nodes' GPUs, one node after the other."""
    gpus = [node.gpus() for node in nodes.values()]
    gpu_ids = np.concatenate(gpus)
    host_of = np.repeat(np.arange(len(gpus)), list(map(len, gpus)))
    grid = Grid(
        gpu_ids=gpu_ids,
        host_of=host_of,
        memory_bytes=boards.at(gpu_ids).memory_bytes,
        holders=np.zeros((len(gpu_ids), (end_ms - start_ms) // CELL_MS), dtype=np.int64),
        start_ms=start_ms,
    )
    table = table_of(nodes, start_ms, end_ms)
    row = grid.rows_of(table["gpu_id"])
    # of several holders any one; a job's GPUs on other nodes are no peers
    holder = table["job_id"] * len(gpus) + host_of[row]
    grid.holders[row, (table["start_ms"] - start_ms) // CELL_MS] = holder
    return grid


def _frames(
    node_ids: Sequence[int], start_ms: int, end_ms: int
) -> tuple[frames.Frame, list[frames.HostFrame]]:
    """The nodes' windows, and of each its host samples."""
    columns = (cell_figures.COLUMNS, cell_figures.HOST_MEANS)
    rows = frames.of_nodes(node_ids, start_ms, end_ms, *columns)
    _, windows, hosts = zip(*rows, strict=True)
    return frames.together(list(map(spoken, windows))), list(hosts)


def filled(windows: frames.Frame, boards: lane_facts.GPUs) -> frames.Frame:
    """With what a sender of single values does not tell; of a GPU that no job held nobody asks."""
    row = rows_among(boards.ids, windows.gpu_id)
    idle_w, limit_w = (np.append(watts, np.nan)[row] for watts in (boards.idle_w, boards.limit_w))
    return replace(windows, columns=single_values.filled(windows, idle_w=idle_w, limit_w=limit_w))


def continued(before: Hour | None, made: Hour, first: int) -> Hour:
    """The hour with its cells before `first` as they were."""
    if before is None or first <= 0:
        return made
    figures = made.figures.copy()
    _, to, of = np.intersect1d(
        made.gpu_ids, before.gpu_ids, assume_unique=True, return_indices=True
    )
    figures[:, to, :first] = before.figures[:, of, :first]
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
    table = table_of(held, start_ms, end_ms)
    job_id, gpu_id, ms = _holders(table, start_ms, (end_ms - start_ms) // CELL_MS)
    total = ms.sum(axis=0)
    is_held = total > 0
    is_shared = shared(gpu_id, is_held)
    boards = lane_facts.gpus(gpu_id).at(gpu_id)
    return Lanes(
        gpu_id=gpu_id,
        job_id=job_id,
        start_ms=start_ms,
        held=is_held,
        held_ms=_held_ms(total, is_shared, boards.sevenths),
        shared=is_shared,
        figures=_figures(gpu_id, is_held, start_ms, hours),
        states=_states(ms, total),
        **_of_boards(boards, end_ms),
        **_of_jobs(job_id, is_held, start_ms),
    )


def _held_ms(total: Floats, is_shared: Mask, sevenths: Ints) -> Floats:
    """Of a GPU that is shared or a part of one the whole cell."""
    is_part = is_shared | (sevenths < WHOLE)[:, None]
    return np.where(is_part & (total > 0), CELL_MS, total)


def _of_boards(boards: lane_facts.GPUs, at_ms: int) -> dict[str, Any]:
    """Of Lanes what is said of each row's GPU, with the prices of that moment."""
    return {
        "idle_w": boards.idle_w,
        "limit_w": boards.limit_w,
        "memory_bytes": boards.memory_bytes,
        "sevenths": boards.sevenths,
        "cheaper": lane_facts.cheaper(boards, from_ms(at_ms)),
    }


def _of_jobs(job_id: Ints, is_held: Mask, start_ms: int) -> dict[str, Any]:
    """Of Lanes what is said of each row's job."""
    facts = lane_facts.jobs(job_id)
    kinds, starts_ms, lives_ms, is_serving, failures = zip(*facts, strict=True)
    return {
        "kind": np.array(kinds),
        "is_serving": np.array(is_serving),
        "warm_up": np.array([warm_up(life_ms) for life_ms in lives_ms]),
        "is_over": np.array([life_ms is not None for life_ms in lives_ms]),
        "failures": np.array(failures),
        "age": _ages(is_held, starts_ms, start_ms),
        "ran_s": _ran_s(is_held, facts, start_ms),
    }


def _holders(table: cell_states.Table, start_ms: int, count: int) -> tuple[Ints, Ints, Floats]:
    """Each job and GPU that it held, ascending; and labels x these x so many cells, how long it was
    held so.
    """
    jobs, job = np.unique(table["job_id"], return_inverse=True)
    gpus, gpu = np.unique(table["gpu_id"], return_inverse=True)
    pairs, row = np.unique(job * len(gpus) + gpu, return_inverse=True)
    ms = np.zeros((len(cell_states.NAMES), len(pairs), count))
    at = (row, (table["start_ms"] - start_ms) // CELL_MS)
    for part, name in zip(ms, cell_states.NAMES, strict=True):
        part[at] = table[name]
    return jobs[pairs // len(gpus)], gpus[pairs % len(gpus)], ms


def _states(ms: Floats, total: Floats) -> dict[str, Floats]:
    """Of labels x lanes x cells each state's share of the held time; NaN where none was held."""
    state_of = np.array([state for state, _ in cell_states.LABELS])
    return {state: ratio(ms[state_of == state].sum(axis=0), total) for state in STATES}


def _ages(is_held: Mask, starts_ms: Sequence[int | None], start_ms: int) -> Ints:
    """Cells since each row's job began: as its scheduler says, else since it is seen to hold the
    GPU.
    """
    began = (np.array(starts_ms, dtype=np.float64) - start_ms) // CELL_MS  # makes None NaN
    first = np.where(np.isnan(began), is_held.argmax(axis=1), began)
    return np.arange(is_held.shape[1]) - first.astype(np.int64)[:, None]


def _ran_s(is_held: Mask, facts: Sequence[lane_facts.JobFacts], start_ms: int) -> Floats:
    """How long each row's job ran by the end of each cell, as far as it did: since when as _ages
    has it.
    """
    starts_ms = np.array([fact.start_ms for fact in facts], dtype=np.float64)  # makes None NaN
    lives_s = np.array([fact.life_ms for fact in facts], dtype=np.float64) / 1000
    first_ms = start_ms + is_held.argmax(axis=1) * CELL_MS
    began_ms = np.where(np.isnan(starts_ms), first_ms, starts_ms)
    ends_ms = start_ms + (np.arange(is_held.shape[1]) + 1) * CELL_MS
    ran_s: Floats = np.fmin((ends_ms - began_ms[:, None]) / 1000, lives_s[:, None])
    return ran_s


def _figures(gpu_id: Ints, is_held: Mask, start_ms: int, hours: Mapping[Key, Hour]) -> Figures:
    """Every figure of cell_figures for the rows, NaN where the row's job does not hold the GPU."""
    gpus, gpu = np.unique(gpu_id, return_inverse=True)
    cells = np.arange(is_held.shape[1])
    kept = _kept(gpus, range(start_ms, start_ms + len(cells) * CELL_MS, HOUR_MS), hours)
    # what a GPU did for its holder before is no evidence against this one
    place = np.where(is_held, gpu[:, None] * len(cells) + cells, NOWHERE)
    return Figures.of(kept.reshape(len(NAMES), -1), NAMES, place)


def _kept(gpus: Ints, span: range, hours: Mapping[Key, Hour]) -> NDArray[np.float32]:
    """NAMES x GPUs x clock hours of the span x cells, and after the GPUs NaN. In single precision,
    as the hours have it: what is asked for becomes double.
    """
    kept = np.full((len(NAMES), len(gpus) + 1, len(span), CELLS_PER_HOUR), np.nan, np.float32)
    for (_, hour_ms), hour in hours.items():
        if hour_ms in span:
            kept[:, rows_among(gpus, hour.gpu_ids), span.index(hour_ms)] = hour.figures
    kept[:, -1] = np.nan  # of GPUs that nobody asks for
    return kept


def nodes_of_jobs(node_ids: Sequence[int], start_ms: int, end_ms: int) -> list[list[int]]:
    """The nodes, with those that share a job with them in that time, in groups that share none with
    each other.
    """
    rows = fetched(
        "SELECT array_agg(DISTINCT gpu.node_id ORDER BY gpu.node_id) FROM jobs_hold AS"
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
