"""One simulated GPU: its board, and the physics that follow from what runs on it."""

import random
import uuid
from dataclasses import dataclass
from typing import Any, Dict, Sequence

from agent.readings import GPUInfo
from agent.sources.simulated.hardware import HARDWARE, MIB, Hardware
from agent.sources.simulated.signal import Shares
from agent.sources.simulated.spec import Spec
from agent.sources.simulated.traits import DrawnLevel

NAMESPACE = uuid.UUID("6f1c1d6e-9a4c-4d0e-8f3b-5b6a2f0f7c11")
RESERVED_BYTES = 640 * MIB  # what the driver keeps for itself
CONTEXT_BYTES = 420 * MIB  # a CUDA context without data
COOL_C, WARMTH_C = 30.0, 50.0  # AcmeTrace A100: 30 + 50 x P / limit
MEMORY_WARMER_C = 9.0  # AcmeTrace: memory is 8 to 10 degrees warmer
OCCUPANCY = 0.27  # of SM activity; AcmeTrace: 20 % at an SM activity of 74 %
CAPPED_POWER = 0.95  # above it the power limit holds the clock down, which is normal
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


def bare_w(hardware: Hardware) -> float:
    """Watts of a usual bare board of that model; one card differs from it by its `idle_w`."""
    return sum(hardware.idle_w) / 2


def level_w(hardware: Hardware, level: DrawnLevel, *, has_context: bool) -> float:
    """Watts of a usual board at that level; never less than what an idle context draws."""
    idle_w = bare_w(hardware)
    floor_w = idle_w + (hardware.context_w if has_context else 0.0)
    return max(floor_w, idle_w + level.power * (hardware.power_limit_w - idle_w))


def memory_bytes(hardware: Hardware, share: Any) -> Any:
    """Memory used without what the driver reserves, context included, by a job that fills that part
    of it.
    """
    return CONTEXT_BYTES + share * (hardware.memory_total_bytes - RESERVED_BYTES - CONTEXT_BYTES)


def mixed(shares: Shares, levels: Sequence[DrawnLevel]) -> DrawnLevel:
    """The mean of the levels over the given shares of a time; for floats and arrays."""
    return DrawnLevel(
        *(sum(share * value for share, value in zip(shares, values)) for values in zip(*levels))
    )


def means(hardware: Hardware, shown: DrawnLevel, *, thermal: Any, capped: Any) -> Dict[str, Any]:
    """The wire's columns that a driver averages itself, as far as that model has them."""
    columns = {
        "pcie_rx_bytes_s": shown.rx_bytes_s,
        "pcie_tx_bytes_s": shown.tx_bytes_s,
        "throttle_thermal_ratio": thermal,
        "throttle_power_ratio": capped,
    }
    if hardware.has_nvlink:
        columns.update(
            nvlink_rx_bytes_s=shown.nvlink_bytes_s, nvlink_tx_bytes_s=shown.nvlink_bytes_s
        )
    if hardware.has_gpm:
        gpm = (
            shown.util,
            shown.sm,
            OCCUPANCY * shown.sm,
            shown.tensor,
            shown.dram,
            shown.fp64,
            shown.fp32,
            0.15 * shown.fp32,
        )
        columns.update(zip(GPM_COLUMNS, gpm))
    return columns


def capped_share(shares: Shares, levels: Sequence[DrawnLevel]) -> Any:
    """The part of a time in which the power limit holds the clock down."""
    return sum(
        (share for share, level in zip(shares, levels) if level.power > CAPPED_POWER),
        0.0 * shares[0],
    )


def temperature_c(hardware: Hardware, power_w: Any) -> Any:
    """Where the temperature settles at that power."""
    return COOL_C + WARMTH_C * power_w / hardware.power_limit_w


def clock_hz(hardware: Hardware, clock: float, *, has_context: bool) -> float:
    """SM clock: parked without a context, else the given part of its maximum."""
    return hardware.clock_max_hz * clock if has_context else hardware.clock_idle_hz


def card(spec: Spec, *, node: str, index: int) -> Card:
    """The GPU at that index of the node."""
    hardware = HARDWARE[spec.model]
    identity = "%s/%d/%s/%d" % (node, spec.seed, spec.model, index)
    idle_w = random.Random("%d/%d/idle" % (spec.seed, index)).uniform(*hardware.idle_w)
    return Card("GPU-%s" % uuid.uuid5(NAMESPACE, identity), index, hardware, idle_w)
