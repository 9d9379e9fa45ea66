"""A node's day told again for another node, or for an earlier day: the same course of things, with
noise of its own. Pure.

Drawing a day sample by sample costs ten times what packing it does. An echo has its own GPUs, its
own jobs of other people, and other digits in every value that varies, so that no payload repeats.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import wire
from agent.sources.simulated import Simulated
from agent.sources.simulated.teams import TEAMS
from agent.window import AMOUNT_DECIMALS, RATIO_DECIMALS
from fleetwatch.demo.blocks import SLOT_MS, Fill
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.telemetry.heat_cells import DAY_MS

Columns = dict[str, NDArray[Any]]

SHARED = 0.25  # of services and notebooks
SHARED_KINDS = ("service", "interactive")
NOISE = 0.01
NOISY = (
    "util_mean", "power_w", "power_max_w", "energy_j", "sm_active", "sm_occupancy", "tensor_active",
    "dram_active", "gr_engine_active", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s",
    "nvlink_tx_bytes_s", "temperature_c", "memory_temperature_c",
)  # fmt: skip
# A driver tells these in whole MHz, degrees and kB/s; a window's mean is over ten readings.
RESOLUTION = {
    "sm_clock_hz": 1e5, "temperature_c": 0.1, "memory_temperature_c": 0.1, "pcie_rx_bytes_s": 100.0,
    "pcie_tx_bytes_s": 100.0,
}  # fmt: skip
_RATIOS = frozenset(wire.RATIO_COLUMNS)


@dataclass(frozen=True, slots=True)
class Echo:
    """What is told anew: for which node, so many days earlier."""

    member: DemoNode
    days_back: int

    def of(self, batch: wire.Batch, drawn: Sequence[Columns]) -> tuple[wire.Batch, list[Columns]]:
        """The facts and windows of the drawn node's block; its own, today, are given back as they
        are.
        """
        if batch.node == self.member.name and not self.days_back:
            return batch, list(drawn)
        shift_ms = self.days_back * DAY_MS
        rng = np.random.default_rng(
            list(
                hashlib.sha256(
                    f"{self.member.name}/{self.days_back}/{batch.sequence}".encode()
                ).digest()
            )
        )
        return self._batch(batch, shift_ms), [_noisy(columns, shift_ms, rng) for columns in drawn]

    def _batch(self, batch: wire.Batch, shift_ms: int) -> wire.Batch:
        start_ms = batch.sequence * SLOT_MS - shift_ms
        day_ms = start_ms // DAY_MS * DAY_MS
        gpus = Simulated(self.member.spec, node=self.member.name, start_ms=start_ms).gpus()
        return replace(
            batch,
            node=self.member.name,
            node_labels=dict(self.member.labels),
            boot_id=Fill(day_ms, day_ms + DAY_MS).boot_id,
            sequence=start_ms // SLOT_MS,
            gpus=[item | {"uuid": gpu.uuid} for item, gpu in zip(batch.gpus, gpus, strict=True)],
            jobs=[self._job(job, shift_ms) for job in batch.jobs],
            allocations=[
                _earlier(item, shift_ms, "start_ms", "end_ms") for item in batch.allocations
            ],
            processes=[],
            events=[_earlier(event, shift_ms, "at_ms") for event in batch.events],
            sources=[_earlier(source, shift_ms, "seen_ms") for source in batch.sources],
            windows=batch.windows
            | {"start_ms": [start - shift_ms for start in batch.windows["start_ms"]]},
        )

    def _job(self, job: wire.Item, shift_ms: int) -> wire.Item:
        """Another job, of somebody else."""
        name = f"{self.member.name}-{self.days_back}"
        rng = random.Random(f"{job['key']}/{name}")
        other = _of_somebody_else(job, name, rng)
        return _earlier(other, shift_ms, "submit_ms", "start_ms", "end_ms")


def shared(batch: wire.Batch, seed: int) -> wire.Batch:
    """The batch with a guest on the GPUs of some services and notebooks: each is granted half."""
    jobs = list(batch.jobs)
    guests: dict[int, int] = {}
    for place, job in enumerate(batch.jobs):
        if job["kind"] in SHARED_KINDS and random.Random(f"{job['key']}/guest").random() < SHARED:
            guests[place] = len(jobs)
            rng = random.Random(f"{seed}/{job['key']}/guest")
            jobs.append(_of_somebody_else(job, "guest", rng))
    allocations = [
        item | {"share": 0.5} if item["job"] in guests else item for item in batch.allocations
    ]
    beside = [item | {"job": guests[item["job"]]} for item in allocations if item["job"] in guests]
    return replace(batch, jobs=jobs, allocations=[*allocations, *beside])


def _of_somebody_else(job: wire.Item, name: str, rng: random.Random) -> wire.Item:
    team = rng.choice(list(TEAMS.values()))
    return job | {
        "key": f"{job['key']}-{name}",
        "id": f"{job['id']}-{name}",
        "user": rng.choice(team.users),
        "account": team.account,
    }


def rounded(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """As the driver's resolution leaves it and the agent rounds what it sends."""
    if values.dtype != np.float64:
        return values
    if step := RESOLUTION.get(name):
        values = np.rint(values / step) * step
    return np.round(values, RATIO_DECIMALS if name in _RATIOS else AMOUNT_DECIMALS)


def _noisy(columns: Columns, shift_ms: int, rng: np.random.Generator) -> Columns:
    echoed = columns | {"start_ms": columns["start_ms"] - shift_ms}
    for name in (name for name in NOISY if name in columns):
        noisy = columns[name] * (1.0 + NOISE * rng.standard_normal(len(columns[name])))
        if name in _RATIOS:  # none and all of the time stay none and all
            noisy = np.where(
                (columns[name] == 0) | (columns[name] == 1), columns[name], np.clip(noisy, 0.0, 1.0)
            )
        echoed[name] = rounded(name, noisy)
    return echoed


def _earlier(item: wire.Item, shift_ms: int, *names: str) -> wire.Item:
    return item | {name: item[name] - shift_ms for name in names if item.get(name) is not None}
