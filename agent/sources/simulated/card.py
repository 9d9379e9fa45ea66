"""One simulated GPU: its board, and the physics that follow from what runs on it."""

import operator
import random
import uuid
from dataclasses import dataclass
from typing import Any, Dict, Sequence

from agent.readings import GPUInfo
from agent.sources.simulated import waves
from agent.sources.simulated.archetype import Level
from agent.sources.simulated.hardware import HARDWARE, MIB, Hardware
from agent.sources.simulated.signal import Shares, Signal, filled, throttled
from agent.sources.simulated.spec import Spec
from agent.sources.simulated.traits import IDLE, NO_WORK, mixed

NAMESPACE = uuid.UUID("6f1c1d6e-9a4c-4d0e-8f3b-5b6a2f0f7c11")
RESERVED_BYTES = 640 * MIB  # what the driver keeps for itself
CONTEXT_BYTES = 420 * MIB  # a CUDA context without data
# AcmeTrace A100: 30 + 50 x P / limit
COOL_C = 30.0
WARMTH_C = 50.0
MEMORY_WARMER_C = 9.0  # AcmeTrace: memory is 8 to 10 degrees warmer
OCCUPANCY = 0.27  # of SM activity; AcmeTrace: 20 % at an SM activity of 74 %
CAPPED_POWER = 0.95  # above it the power limit holds the clock down, which is normal
JITTER = 0.03  # of what flickers from second to second
# utilisation that does not flicker
STEADY_BELOW = 0.02
STEADY_ABOVE = 0.98
STEADY_MEANS = ("gr_engine_active", "throttle_thermal_ratio", "throttle_power_ratio")
GPM_COLUMNS = (
    "gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active",
    "fp32_active", "fp16_active",
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """One GPU of a simulated node, always the same for the same node, seed and index."""

    uuid: str
    index: int
    hardware: Hardware
    idle_w: float

    @property
    def info(self) -> GPUInfo:
        """Identity and limits, as a driver would name them."""
        unread = (
            {}
            if self.hardware.has_gpm
            else dict.fromkeys(("sm_active", "tensor_active", "dram_active"), "not_supported")
        )
        return GPUInfo(
            uuid=self.uuid,
            index=self.index,
            model=self.hardware.driver_name,
            memory_total_bytes=self.hardware.memory_total_bytes,
            power_limit_w=self.hardware.power_limit_w,
            sm_count=self.hardware.sm_count,
            sm_clock_max_hz=self.hardware.clock_max_hz,
            persistence=True,
            bus_id="00000000:%02X:00.0" % (0x10 + 0x0B * self.index),
            minor=self.index,
            unread=unread,
        )


# What a rank makes a usual board of its model show, numbers of a reading or arrays: of its moment
# MOMENTARY, and the wire's columns that the driver averages itself, as far as that model has them.
Shown = Dict[str, Any]
MOMENTARY = ("power_w", "sm_clock_hz", "memory_used_bytes", "process_count")


def bare_w(hardware: Hardware) -> float:
    """Watts of a usual bare board of that model; one card differs from it by its `idle_w`."""
    return sum(hardware.idle_w) / 2


def bare(hardware: Hardware) -> Shown:
    """A board with nothing on it."""
    return {
        "power_w": bare_w(hardware),
        "sm_clock_hz": hardware.clock_idle_hz,
        "memory_used_bytes": 0.0,
        "process_count": 0.0,
        **_means(hardware, NO_WORK, thermal=0.0, capped=0.0),
    }


def shown(
    hardware: Hardware, signal: Signal, role: str, shares: Shares, *, start_s: Any, end_s: Any
) -> Shown:
    """A board with a rank of that role, which spends these shares of [start_s, end_s) at its
    levels.

    What a driver tells of a moment is of the end of that time.
    """
    levels = signal.traits.levels_of(role)
    mean = mixed(shares, levels)
    context = signal.contexts(role, end_s)
    flicker = 1.0 + JITTER * waves.noise(end_s, signal.job.number)
    thermal = throttled(signal.traits, start_s - signal.start_s, end_s - signal.start_s)
    capped = sum(share for share, level in zip(shares, levels) if level.power > CAPPED_POWER)
    means = _means(hardware, mean, thermal=thermal, capped=capped)
    return {
        "power_w": flicker * _power_w(hardware, shares, levels, context),
        "sm_clock_hz": hardware.clock_idle_hz
        + context * (hardware.clock_max_hz * mean.clock - hardware.clock_idle_hz),
        "memory_used_bytes": memory_used(hardware, signal, role, end_s),
        "process_count": context,
        **scaled(means, flicker),
    }


def scaled(means: Shown, factor: Any) -> Shown:
    """The means in it times the factor, but for those that it does not touch."""
    return {
        name: value if name in STEADY_MEANS else value * factor
        for name, value in means.items()
        if name not in MOMENTARY
    }


def memory_used(hardware: Hardware, signal: Signal, role: str, at_s: Any) -> Any:
    """Bytes that the job holds on a GPU of that role: none without a context."""
    free = hardware.memory_total_bytes - RESERVED_BYTES - CONTEXT_BYTES
    share = 0.0 if role == IDLE else signal.traits.memory_share
    data = share * free * filled(signal.traits, at_s - signal.start_s)
    return signal.contexts(role, at_s) * (CONTEXT_BYTES + data)


def utilisation(signal: Signal, role: str, shares: Shares, number: Any) -> Any:
    """The driver's sample of that number since the epoch, a ratio; float or array, not rounded."""
    util = sum(share * level.util for share, level in zip(shares, signal.traits.levels_of(role)))
    flickers = (util > STEADY_BELOW) & (util < STEADY_ABOVE)
    util = util * (1.0 + JITTER * flickers * waves.noise(number, signal.job.number))
    return waves.larger(waves.smaller(util, 1.0), 0.0)


def temperature_c(hardware: Hardware, power_w: Any) -> Any:
    """Where the temperature settles at that power."""
    return COOL_C + WARMTH_C * power_w / hardware.power_limit_w


def card(spec: Spec, *, node: str, index: int) -> Card:
    """The GPU at that index of the node."""
    hardware = HARDWARE[spec.model]
    identity = "%s/%d/%s/%d" % (node, spec.seed, spec.model, index)
    idle_w = random.Random("%d/%d/idle" % (spec.seed, index)).uniform(*hardware.idle_w)
    return Card("GPU-%s" % uuid.uuid5(NAMESPACE, identity), index, hardware, idle_w)


def _power_w(hardware: Hardware, shares: Shares, levels: Sequence[Level], context: Any) -> Any:
    """Watts of a usual board that spends these shares at the levels; with a context no less than
    what an idle one draws.
    """
    idle_w = bare_w(hardware)
    least_w = idle_w + context * hardware.context_w
    most_w = hardware.power_limit_w - idle_w
    levels_w = [waves.larger(least_w, idle_w + level.power * most_w) for level in levels]
    return sum(map(operator.mul, shares, levels_w))


def _means(hardware: Hardware, level: Level, *, thermal: Any, capped: Any) -> Shown:
    columns = {
        "pcie_rx_bytes_s": level.rx_mib_s * MIB,
        "pcie_tx_bytes_s": level.tx_mib_s * MIB,
        "throttle_thermal_ratio": thermal,
        "throttle_power_ratio": capped,
    }
    if hardware.has_nvlink:
        both_ways = ("nvlink_rx_bytes_s", "nvlink_tx_bytes_s")
        columns.update(dict.fromkeys(both_ways, level.nvlink_mib_s * MIB))
    if hardware.has_gpm:
        columns.update(
            gr_engine_active=level.util,
            sm_active=level.sm,
            sm_occupancy=OCCUPANCY * level.sm,
            tensor_active=level.tensor,
            dram_active=level.dram,
            fp64_active=level.fp64,
            fp32_active=level.fp32,
            fp16_active=0.15 * level.fp32,
        )
    return columns
