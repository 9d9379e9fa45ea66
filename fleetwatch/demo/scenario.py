"""One block of a simulated node's history as a batch of the wire. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import __version__, wire
from agent.batch import ClosedWindow, Sender, build
from agent.sources.simulated import Simulated, Spec
from agent.sources.simulated.schedule import jobs_between
from agent.sources.simulated.source import DRIVER
from agent.sources.simulated.troubles import (
    OMENS_MS,
    ecc_errors,
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
DIGITS = {
    "energy_j": 0, "util_dips": 0, "memory_used_bytes": 0, "memory_reserved_bytes": 0,
    "sm_clock_hz": 0, "sm_clock_max_hz": 0, "process_count": 0, "ecc_uncorrected": 0,
    "pcie_rx_bytes_s": 0, "pcie_tx_bytes_s": 0, "nvlink_rx_bytes_s": 0, "nvlink_tx_bytes_s": 0,
    "job_io_read_bytes_s": 0, "job_cores": 0, "job_workers": 0, "job_memory_bytes": 0,
    "disk_read_bytes_s": 0, "disk_write_bytes_s": 0, "nic_rx_bytes_s": 0, "nic_tx_bytes_s": 0,
    "pending_gpus": 0,
    "power_w": 1, "power_min_w": 1, "power_max_w": 1, "temperature_c": 1, "memory_temperature_c": 1,
    "util_longest_low_s": 1, "util_cycle_s": 2, "util_cycle_cv": 3,
}  # fmt: skip


def batch(node: DemoNode, block: Block) -> wire.Batch:
    """The node's block: windows, jobs, allocations and events, as its agent would have sent it."""
    seen = windows(node, block)
    gpus = range(len(seen.gpus))
    one_after_another = {
        "gpu": np.repeat(gpus, len(seen.host["start_ms"])),
        **{name: np.concatenate([gpu[name] for gpu in seen.gpus]) for name in seen.gpus[0]},
    }
    return replace(
        without_windows(node, block),
        windows=_as_lists(one_after_another),
        host=_as_lists(seen.host),
    )


def has_events(node: DemoNode, block: Block) -> bool:
    """Whether a driver says something in it: only that of the faulty GPU does."""
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    return bool(simulated.events_between(block.start_ms, block.end_ms))


def without_windows(node: DemoNode, block: Block) -> wire.Batch:
    """The same batch, its windows left out."""
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    gpus = simulated.gpus()
    workload = simulated.resolve({}, gpus=gpus, start_ms=block.start_ms, end_ms=block.end_ms)
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
        events=simulated.events_between(block.start_ms, block.end_ms),
    )
    return replace(built, sequence=block.sequence)


def windows(node: DemoNode, block: Block) -> NodeColumns:
    """What was seen of the node, with KEYS: outages leave holes, a lost GPU observes 0 ms."""
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    spec = simulated.spec
    window_ms = block.window_s * 1000
    drawn = _drawn(simulated, block)
    starts = drawn.host["start_ms"]
    if spec.faulty is not None:
        _lose(drawn.gpus[spec.faulty], spec, window_ms)
    if spec.queue:
        pending = [pending_gpus(spec.cluster, start) for start in starts.tolist()]
        drawn.host["pending_gpus"] = np.array(pending, dtype=np.float64)
    is_seen = ~_is_hit(starts, window_ms, outages_between(spec, block.start_ms, block.end_ms))
    return NodeColumns(
        [_only(columns, is_seen) for columns in drawn.gpus], _only(drawn.host, is_seen)
    )


def _drawn(simulated: Simulated, block: Block) -> NodeColumns:
    """What the node would show without its troubles, with KEYS."""
    window_ms = block.window_s * 1000
    starts = np.arange(block.start_ms, block.end_ms, window_ms, dtype=np.int64)
    span = Span(block.start_ms // 1000, len(starts) * block.window_s, block.window_s)
    parts = whole(jobs_between(simulated.spec, block.start_ms, block.end_ms))
    drawn = draw(simulated.cards, parts, span, seed=simulated.spec.seed)
    keys = {"start_ms": starts, "observed_ms": np.full(len(starts), window_ms)}
    return NodeColumns([keys | gpu for gpu in drawn.gpus], {"start_ms": starts, **drawn.host})


def _only(columns: Columns, is_seen: NDArray[np.bool_]) -> Columns:
    return {name: values[is_seen] for name, values in columns.items()}


def _lose(columns: Columns, spec: Spec, window_ms: int) -> None:
    """Counts the faulty GPU's memory errors; nothing was read of windows in which it was lost."""
    starts = columns["start_ms"]
    first_ms = int(starts[0])
    end_ms = int(starts[-1]) + window_ms
    if faults_between(spec, first_ms, end_ms + OMENS_MS):
        columns["ecc_uncorrected"] = np.array(
            [float(ecc_errors(spec, start + window_ms - 1000)) for start in starts.tolist()]
        )
    is_gone = _is_hit(starts, window_ms, faults_between(spec, first_ms, end_ms))
    if is_gone.any():
        columns["observed_ms"] = np.where(is_gone, 0, columns["observed_ms"])
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
    return {name: _as_list(values, DIGITS.get(name, 4)) for name, values in columns.items()}


def _as_list(values: NDArray[Any], digits: int) -> list[float | int | None]:
    if values.dtype.kind == "i":  # places, times and lengths
        return list(values.tolist())
    unread = np.isnan(values)
    rounded = np.round(values, digits)
    shown = rounded if digits else np.where(unread, 0, rounded).astype(np.int64)
    as_list: list[float | int | None] = shown.tolist()
    for place in np.flatnonzero(unread).tolist():
        as_list[place] = None
    return as_list
