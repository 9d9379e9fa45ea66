"""One block of a simulated node's history as a batch of the wire. Pure."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import __version__, wire
from agent.batch import ClosedWindow, Sender, build
from agent.readings import Event
from agent.sources.simulated import Simulated
from agent.sources.simulated.card import card
from agent.sources.simulated.faults import OMENS_MS, ecc_errors, events_between, faults_between
from agent.sources.simulated.queue import pending_gpus
from agent.sources.simulated.schedule import jobs_between, outages_between
from agent.sources.simulated.source import DRIVER
from fleetwatch.demo.blocks import Block
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.demo.tracks import whole
from fleetwatch.demo.window_columns import draw

# Older than any live agent's boot, so that what a live agent says of its node wins over what
# history says.
BOOT_START_MS = 1_735_689_600_000
KEYS = ("start_ms", "observed_ms")
DIGITS = {
    "energy_j": 0, "util_dips": 0, "memory_used_bytes": 0, "memory_reserved_bytes": 0,
    "sm_clock_hz": 0, "process_count": 0,
    "sm_clock_max_hz": 0, "ecc_uncorrected": 0, "pcie_rx_bytes_s": 0, "pcie_tx_bytes_s": 0,
    "nvlink_rx_bytes_s": 0, "nvlink_tx_bytes_s": 0,
    "job_io_read_bytes_s": 0, "job_cores": 0, "job_workers": 0, "power_w": 1, "power_min_w": 1,
    "power_max_w": 1, "temperature_c": 1,
    "disk_read_bytes_s": 0, "disk_write_bytes_s": 0, "pending_gpus": 0, "nic_rx_bytes_s": 0,
    "nic_tx_bytes_s": 0,
    "memory_temperature_c": 1, "util_longest_low_s": 1, "util_cycle_s": 2, "util_cycle_cv": 3,
}  # fmt: skip
WHOLE = {name for name, digits in DIGITS.items() if digits == 0}


def batch(node: DemoNode, block: Block) -> wire.Batch:
    """The node's block: windows, jobs, allocations and events, as its agent would have sent
    them.
    """
    simulated = Simulated(node.spec, node=node.name, start_ms=block.start_ms)
    told = drawn(node, simulated, block)
    host = {"start_ms": told.starts_ms.tolist()} | {
        name: _as_list(name, np.round(values, 4)) for name, values in told.host.items()
    }
    return replace(without_windows(node, simulated, block), windows=_windows(told.gpus), host=host)


def without_windows(node: DemoNode, simulated: Simulated, block: Block) -> wire.Batch:
    """The same batch, its windows left out."""
    told = ClosedWindow(
        block.start_ms,
        [],
        simulated.resolve({}, gpus=simulated.gpus(), start_ms=block.start_ms, end_ms=block.end_ms),
    )
    sender = Sender(node.name, block.fill.boot_id, BOOT_START_MS, block.window_s, node.labels)
    agent = {
        "version": __version__,
        "driver": DRIVER,
        "source": "simulated",
        "dropped_windows": 0,
        "spool_bytes": 0,
    }
    built = build(
        [told], sender=sender, gpus=simulated.gpus(), agent=agent, events=events(simulated, block)
    )
    return replace(built, sequence=block.sequence)


def events(simulated: Simulated, block: Block) -> list[Event]:
    """What the driver said of the faulty GPU within the block."""
    if simulated.spec.faulty is None:
        return []
    return events_between(
        simulated.spec, simulated.gpus()[simulated.spec.faulty].uuid, block.start_ms, block.end_ms
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was seen of a node in a block: for each GPU in order KEYS and the wire's columns (NaN:
    not read), and the host's columns.
    """

    starts_ms: NDArray[np.int64]
    gpus: list[dict[str, NDArray[Any]]]
    host: dict[str, NDArray[Any]]


def _windows(gpus: list[dict[str, NDArray[Any]]]) -> wire.Columns:
    """The wire's window columns of all GPUs, by GPU and start."""
    rounded = [_rounded(columns) for columns in gpus]
    names = [name for name in rounded[0] if name not in KEYS]
    told: wire.Columns = {
        "gpu": [index for index, columns in enumerate(rounded) for _ in columns["start_ms"]]
    }
    told |= {
        name: [value for columns in rounded for value in columns[name].tolist()] for name in KEYS
    }
    return told | {
        name: _as_list(name, np.concatenate([columns[name] for columns in rounded]))
        for name in names
    }


def by_gpu(node: DemoNode, simulated: Simulated, block: Block) -> list[dict[str, NDArray[Any]]]:
    """For each GPU in order: KEYS, and the wire's columns as drawn (NaN: not read)."""
    return drawn(node, simulated, block).gpus


def drawn(node: DemoNode, simulated: Simulated, block: Block) -> Drawn:
    """What was seen of the node: telemetry outages leave holes, a lost GPU observes 0 ms."""
    spec, window_ms = simulated.spec, block.window_s * 1000
    starts = np.arange(block.start_ms, block.end_ms, window_ms, dtype=np.int64)
    cards = [card(spec, node=node.name, index=index) for index in range(spec.count)]
    parts = whole(jobs_between(spec, block.start_ms, block.end_ms))
    columns = draw(
        cards,
        parts,
        start_ms=block.start_ms,
        count=len(starts),
        window_s=block.window_s,
        seed=spec.seed,
    )
    observed = [np.full(len(starts), window_ms) for _ in cards]
    if spec.faulty is not None:
        _lose(columns.gpus[spec.faulty], observed[spec.faulty], simulated, starts, window_ms)
    seen = _seen(simulated, starts, window_ms)
    gpus = [
        {"start_ms": starts, "observed_ms": observed[index], **columns.gpus[index]}
        for index in range(spec.count)
    ]
    host = columns.host | _queue(simulated, starts)
    return Drawn(starts[seen], [_only(one, seen) for one in gpus], _only(host, seen))


def _queue(simulated: Simulated, starts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """What the scheduler told of its queue, as a column of the host."""
    if not simulated.spec.queue:
        return {}
    return {
        "pending_gpus": np.array(
            [float(pending_gpus(simulated.spec.cluster, start)) for start in starts.tolist()]
        )
    }


def _only(columns: dict[str, NDArray[Any]], seen: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return columns if seen.all() else {name: values[seen] for name, values in columns.items()}


def _seen(simulated: Simulated, starts: NDArray[np.int64], window_ms: int) -> NDArray[np.bool_]:
    """Which windows did not touch a telemetry outage."""
    seen = np.ones(len(starts), dtype=np.bool_)
    for begin_ms, end_ms in outages_between(
        simulated.spec, int(starts[0]), int(starts[-1]) + window_ms
    ):
        seen &= (starts + window_ms <= begin_ms) | (starts >= end_ms)
    return seen


def _lose(
    columns: dict[str, Any],
    observed: NDArray[np.int64],
    simulated: Simulated,
    starts: NDArray[np.int64],
    window_ms: int,
) -> None:
    """Counts the faulty GPU's memory errors; nothing was read of windows in which it was lost."""
    first_ms, end_ms = int(starts[0]), int(starts[-1]) + window_ms
    if faults_between(simulated.spec, first_ms, end_ms + OMENS_MS):
        columns["ecc_uncorrected"] = np.array(
            [
                float(ecc_errors(simulated.spec, start + window_ms - 1000))
                for start in starts.tolist()
            ]
        )
    for lost_ms, back_ms in faults_between(simulated.spec, first_ms, end_ms):
        gone = (starts + window_ms > lost_ms) & (starts < back_ms)
        observed[gone] = 0
        for name, column in columns.items():
            columns[name] = np.where(gone, np.nan, column)


def _rounded(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Rounded to what a sensor resolves."""
    return {
        name: values if name in KEYS else np.round(values, DIGITS.get(name, 4))
        for name, values in columns.items()
    }


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
