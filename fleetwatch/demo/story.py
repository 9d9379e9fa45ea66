"""One block of a simulated node's history as a batch of the wire. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import __version__, wire
from agent.batch import ClosedWindow, Sender, build
from agent.reading import Event
from agent.sources.simulated import Simulated
from agent.sources.simulated.card import card
from agent.sources.simulated.schedule import faults_between, jobs_between, outages_between
from agent.sources.simulated.source import DRIVER
from fleetwatch.demo.columns import draw
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.demo.plan import Block
from fleetwatch.demo.tracks import whole

# Older than any live agent's boot, so that what a live agent says of its node wins over what history says.
BOOT_START_MS = 1_735_689_600_000
KEYS = ("start_ms", "observed_ms")
DIGITS = {
    "energy_j": 0, "util_dips": 0, "memory_used_bytes": 0, "memory_reserved_bytes": 0, "sm_clock_hz": 0, "process_count": 0,
    "sm_clock_max_hz": 0, "ecc_uncorrected": 0, "pcie_rx_bytes_s": 0, "pcie_tx_bytes_s": 0, "nvlink_rx_bytes_s": 0, "nvlink_tx_bytes_s": 0,
    "job_io_read_bytes_s": 0, "job_cores": 0, "job_workers": 0, "power_w": 1, "power_min_w": 1, "power_max_w": 1, "temperature_c": 1,
    "memory_temperature_c": 1, "util_longest_low_s": 1, "util_cycle_s": 2, "util_cycle_cv": 3,
}  # fmt: skip
WHOLE = {name for name, digits in DIGITS.items() if digits == 0}


def batch(node: DemoNode, block: Block) -> wire.Batch:
    """The node's block: windows, jobs, allocations and events, as its agent would have sent them."""
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    return replace(without_windows(node, simulated, block), windows=windows(node, simulated, block))


def without_windows(node: DemoNode, simulated: Simulated, block: Block) -> wire.Batch:
    """The same batch, its windows left out."""
    told = ClosedWindow(block.start_ms, [], simulated.resolve({}, gpus=simulated.gpus(), start_ms=block.start_ms, end_ms=block.end_ms))
    sender = Sender(node.name, block.fill.boot_id, BOOT_START_MS, block.window_s, node.labels)
    agent = {"version": __version__, "driver": DRIVER, "source": "simulated", "dropped_windows": 0, "spool_bytes": 0}
    built = build([told], sender=sender, gpus=simulated.gpus(), agent=agent, events=events(simulated, block))
    return replace(built, sequence=block.sequence)


def events(simulated: Simulated, block: Block) -> list[Event]:
    """The faulty GPU's losses and returns within the block."""
    spec = simulated.spec
    if spec.faulty is None:
        return []
    uuid = simulated.gpus()[spec.faulty].uuid
    told = []
    for start_ms, end_ms in faults_between(spec, block.start_ms, block.end_ms):
        told += [
            Event(start_ms, "xid", uuid, 79, "GPU has fallen off the bus"),
            Event(start_ms, "gpu_lost", uuid, None, "GPU is lost"),
            Event(end_ms, "gpu_ok", uuid, None, "GPU answers again"),
        ]
    return [event for event in told if block.start_ms <= event.at_ms < block.end_ms]


def windows(node: DemoNode, simulated: Simulated, block: Block) -> wire.Columns:
    """The wire's window columns of all GPUs, by GPU and start; telemetry outages leave holes, a lost GPU observes 0 ms."""
    drawn = [_rounded(columns) for columns in by_gpu(node, simulated, block)]
    names = [name for name in drawn[0] if name not in KEYS] if drawn else []
    told: wire.Columns = {"gpu": [index for index, columns in enumerate(drawn) for _ in columns["start_ms"]]}
    told |= {name: [value for columns in drawn for value in columns[name].tolist()] for name in KEYS}
    return told | {name: _as_list(name, np.concatenate([columns[name] for columns in drawn])) for name in names}


def by_gpu(node: DemoNode, simulated: Simulated, block: Block) -> list[dict[str, NDArray[Any]]]:
    """For each GPU in order: KEYS, and the wire's columns as drawn (NaN: not read); an empty list where all was lost to an outage."""
    spec, window_ms = simulated.spec, block.window_s * 1000
    starts = np.arange(block.start_ms, block.end_ms, window_ms, dtype=np.int64)
    seen = _seen(simulated, starts, window_ms)
    if not seen.any():
        return []
    cards = [card(spec, node=node.name, index=index) for index in range(spec.count)]
    parts = whole(jobs_between(spec, block.start_ms, block.end_ms))
    drawn = draw(cards, parts, start_ms=block.start_ms, count=len(starts), window_s=block.window_s, seed=spec.seed)
    lost = faults_between(spec, block.start_ms, block.end_ms)
    told: list[dict[str, NDArray[Any]]] = []
    for index, columns in enumerate(drawn):
        observed = np.full(len(starts), window_ms)
        if index == spec.faulty and lost:
            _lose(columns, observed, starts, window_ms=window_ms, lost=lost)
        told.append({name: values[seen] for name, values in {"start_ms": starts, "observed_ms": observed, **columns}.items()})
    return told


def _seen(simulated: Simulated, starts: NDArray[np.int64], window_ms: int) -> NDArray[np.bool_]:
    """Which windows did not touch a telemetry outage."""
    seen = np.ones(len(starts), dtype=np.bool_)
    for begin_ms, end_ms in outages_between(simulated.spec, int(starts[0]), int(starts[-1]) + window_ms):
        seen &= (starts + window_ms <= begin_ms) | (starts >= end_ms)
    return seen


def _lose(
    columns: dict[str, Any], observed: NDArray[np.int64], starts: NDArray[np.int64], *, window_ms: int, lost: Sequence[tuple[int, int]]
) -> None:
    """Nothing was read of windows in which the GPU was lost."""
    for start_ms, end_ms in lost:
        gone = (starts + window_ms > start_ms) & (starts < end_ms)
        observed[gone] = 0
        for column in columns.values():
            column[gone] = np.nan


def _rounded(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Rounded to what a sensor resolves."""
    return {name: values if name in KEYS else np.round(values, DIGITS.get(name, 4)) for name, values in columns.items()}


def _as_list(name: str, rounded: NDArray[np.float64]) -> list[float | int | None]:
    """None where nothing was read, whole numbers without a point."""
    unread = np.isnan(rounded)
    if name not in WHOLE:
        told: list[float | int | None] = rounded.tolist()
    else:
        told = np.where(unread, 0, rounded).astype(np.int64).tolist()
    for place in np.flatnonzero(unread).tolist():
        told[place] = None
    return told
