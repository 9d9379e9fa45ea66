"""One block of a simulated node's history as a batch of the wire. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from agent import __version__, wire
from agent.batch import ClosedWindow, Sender, build
from agent.readings import Event
from agent.sources.simulated import Simulated, Spec
from agent.sources.simulated.schedule import jobs_between
from agent.sources.simulated.source import DRIVER
from agent.sources.simulated.troubles import (
    ecc_errors,
    events_between,
    faults_between,
    outages_between,
    pending_gpus,
)
from fleetwatch.demo.blocks import Block
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.demo.signals import Span, whole
from fleetwatch.demo.window_columns import Columns, NodeColumns, draw

# Older than any live agent's boot, so that what a live agent says of its node wins over what
# history says.
BOOT_START_MS = 1_735_689_600_000
KEYS = ("start_ms", "observed_ms")
# Digits that a sensor resolves; of shares four.
DIGITS = {
    **dict.fromkeys(
        (
            "energy_j", "util_dips", "memory_used_bytes", "memory_reserved_bytes", "sm_clock_hz",
            "sm_clock_max_hz", "process_count", "ecc_uncorrected", "pcie_rx_bytes_s",
            "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s", "job_io_read_bytes_s",
            "job_cores", "job_workers", "pending_gpus", "disk_read_bytes_s", "disk_write_bytes_s",
            "nic_rx_bytes_s", "nic_tx_bytes_s",
        ),
        0,
    ),
    **dict.fromkeys(
        (
            "power_w", "power_min_w", "power_max_w", "temperature_c", "memory_temperature_c",
            "util_longest_low_s",
        ),
        1,
    ),
    "util_cycle_s": 2,
    "util_cycle_cv": 3,
}  # fmt: skip


def batch(node: DemoNode, block: Block) -> wire.Batch:
    """The node's block: windows, jobs, allocations and events, as its agent would have sent it."""
    seen = windows(node, block)
    gpus = {
        "gpu": np.repeat(np.arange(len(seen.gpus)), len(seen.host["start_ms"])),
        **{name: np.concatenate([gpu[name] for gpu in seen.gpus]) for name in seen.gpus[0]},
    }
    return replace(without_windows(node, block), windows=_as_lists(gpus), host=_as_lists(seen.host))


def without_windows(node: DemoNode, block: Block) -> wire.Batch:
    """The same batch, its windows left out."""
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    spec = simulated.spec
    gpus = simulated.gpus()
    workload = simulated.resolve({}, gpus=gpus, start_ms=block.start_ms, end_ms=block.end_ms)
    events: list[Event] = []
    if spec.faulty is not None:
        uuid = gpus[spec.faulty].uuid
        events = events_between(spec, uuid, block.start_ms, block.end_ms)
    built = build(
        [ClosedWindow(block.start_ms, [], workload)],
        sender=Sender(node.name, block.fill.boot_id, BOOT_START_MS, block.window_s, node.labels),
        gpus=gpus,
        agent={
            "version": __version__,
            "driver": DRIVER,
            "source": "simulated",
            "dropped_windows": 0,
            "spool_bytes": 0,
        },
        events=events,
    )
    return replace(built, sequence=block.sequence)


def windows(node: DemoNode, block: Block) -> NodeColumns:
    """What was seen of the node, with KEYS: outages leave holes, a lost GPU observes 0 ms."""
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    spec = simulated.spec
    window_ms = block.window_s * 1000
    node_columns = _undisturbed(simulated, block)
    starts = node_columns.host["start_ms"]
    if spec.faulty is not None:
        _lose(node_columns.gpus[spec.faulty], spec, window_ms)
    if spec.queue:
        pending = [float(pending_gpus(spec.cluster, start)) for start in starts.tolist()]
        node_columns.host["pending_gpus"] = np.array(pending)
    is_seen = ~_is_hit(starts, window_ms, outages_between(spec, block.start_ms, block.end_ms))
    gpus = [_only(columns, is_seen) for columns in node_columns.gpus]
    return NodeColumns(gpus, _only(node_columns.host, is_seen))


def _undisturbed(simulated: Simulated, block: Block) -> NodeColumns:
    """Of an agent that always reads, on GPUs that always work, with KEYS."""
    spec = simulated.spec
    window_ms = block.window_s * 1000
    starts = np.arange(block.start_ms, block.end_ms, window_ms, dtype=np.int64)
    span = Span(block.start_ms // 1000, len(starts) * block.window_s, block.window_s)
    parts = whole(jobs_between(spec, block.start_ms, block.end_ms))
    drawn = draw(simulated.cards, parts, span, seed=spec.seed)
    keys: Columns = {"start_ms": starts, "observed_ms": np.full(len(starts), window_ms)}
    return NodeColumns([keys | gpu for gpu in drawn.gpus], {"start_ms": starts, **drawn.host})


def _only(columns: Columns, is_seen: NDArray[np.bool_]) -> Columns:
    return {name: values[is_seen] for name, values in columns.items()}


def _lose(columns: Columns, spec: Spec, window_ms: int) -> None:
    """Counts the faulty GPU's memory errors; nothing was read of windows in which it was lost."""
    starts = columns["start_ms"]
    ends_ms = (starts + window_ms).tolist()
    errors = [float(ecc_errors(spec, end_ms - 1000)) for end_ms in ends_ms]
    columns["ecc_uncorrected"] = np.array(errors)
    is_gone = _is_hit(starts, window_ms, faults_between(spec, int(starts[0]), ends_ms[-1]))
    columns["observed_ms"] = np.where(is_gone, 0, window_ms)
    for name in columns.keys() - set(KEYS):
        columns[name] = np.where(is_gone, np.nan, columns[name])


def _is_hit(
    starts: NDArray[np.int64], window_ms: int, spans: Sequence[tuple[int, int]]
) -> NDArray[np.bool_]:
    """For each window whether any of the spans touches it."""
    is_hit = np.zeros(len(starts), dtype=np.bool_)
    for begin_ms, end_ms in spans:
        is_hit |= (starts + window_ms > begin_ms) & (starts < end_ms)
    return is_hit


def _as_lists(columns: Columns) -> wire.Columns:
    """Rounded to what a sensor resolves: None where nothing was read, whole numbers without a
    point.
    """
    return {
        name: values.tolist() if values.dtype == np.int64 else _as_list(values, DIGITS.get(name, 4))
        for name, values in columns.items()
    }


def _as_list(values: NDArray[np.float64], digits: int) -> list[float | int | None]:
    unread = np.isnan(values)
    rounded = np.round(values, digits)
    if not digits:
        rounded = np.where(unread, 0, rounded).astype(np.int64)
    as_list: list[float | int | None] = rounded.tolist()
    for place in np.flatnonzero(unread).tolist():
        as_list[place] = None
    return as_list
