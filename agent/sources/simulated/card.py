"""One simulated GPU: its board, and the physics that follow from what runs on it."""

import random
import uuid
from dataclasses import dataclass
from typing import Optional

from agent.reading import GPUInfo
from agent.sources.simulated.hardware import HARDWARE, MIB, Hardware
from agent.sources.simulated.signal import DrawnLevel, Traits
from agent.sources.simulated.spec import Spec

NAMESPACE = uuid.UUID("6f1c1d6e-9a4c-4d0e-8f3b-5b6a2f0f7c11")
RESERVED_BYTES = 640 * MIB  # what the driver keeps for itself
CONTEXT_BYTES = 420 * MIB  # a CUDA context without data
COOL_C, WARMTH_C = 30.0, 50.0  # AcmeTrace A100: 30 + 50 x P / limit


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
        unread = {} if self.hardware.has_gpm else dict.fromkeys(("sm_active", "tensor_active", "dram_active"), "not_supported")
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

    def level_w(self, level: DrawnLevel, *, has_context: bool) -> float:
        """Board power in watts at that level; never less than what an idle context draws."""
        floor_w = self.idle_w + (self.hardware.context_w if has_context else 0.0)
        return max(floor_w, self.idle_w + level.power * (self.hardware.power_limit_w - self.idle_w))

    def memory_bytes(self, traits: Optional[Traits], *, is_busy: bool) -> int:
        """Memory used without what the driver reserves; no traits: nothing runs."""
        if traits is None:
            return 0
        if not is_busy:
            return CONTEXT_BYTES
        return int(traits.memory_share * (self.hardware.memory_total_bytes - RESERVED_BYTES))

    def temperature_c(self, power_w: float) -> float:
        """Where the temperature settles at that power."""
        return COOL_C + WARMTH_C * power_w / self.hardware.power_limit_w

    def clock_hz(self, power_w: float) -> float:
        """SM clock: parked when nothing draws power, near its maximum otherwise."""
        is_parked = power_w <= self.idle_w + 1.0
        return self.hardware.clock_idle_hz if is_parked else self.hardware.clock_max_hz * 0.97


def card(spec: Spec, *, node: str, index: int) -> Card:
    """The GPU at that index of the node."""
    hardware = HARDWARE[spec.model]
    identity = "%s/%d/%s/%d" % (node, spec.seed, spec.model, index)
    idle_w = random.Random("%d/%d/idle" % (spec.seed, index)).uniform(*hardware.idle_w)
    return Card("GPU-%s" % uuid.uuid5(NAMESPACE, identity), index, hardware, idle_w)
