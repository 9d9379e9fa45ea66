"""What a GPU is: asked once where it never changes, each minute where an operator may change it."""

from dataclasses import replace
from typing import Any, Dict, Optional

from agent.readings import GPUInfo
from agent.sources.nvml.capabilities import Capabilities, Quantity, hertz, thousandth
from agent.sources.nvml.library import MEMORY_V2, text_of

CLOCK_SM = 1
# what never changes: asked for until it is known
LASTING = (
    Quantity("model", "nvmlDeviceGetName", text_of),
    Quantity("bus_id", "nvmlDeviceGetPciInfo_v3", lambda bus: text_of(bus.busId)),
    Quantity("minor", "nvmlDeviceGetMinorNumber", int),
    Quantity("sm_clock_max_hz", "nvmlDeviceGetMaxClockInfo", hertz, (CLOCK_SM,)),
)
LIMITS = (
    Quantity("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", thousandth),
    Quantity("persistence", "nvmlDeviceGetPersistenceMode", bool),
)
# CUDA cores of one SM; NVML tells the cores, not the SMs (CUDA programming guide, compute
# capabilities)
CORES_PER_SM = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
NEWER_CORES_PER_SM = 128


def refreshed(info: GPUInfo, capabilities: Capabilities, handle: Any) -> GPUInfo:
    """The GPU with its limits; what is None was not read. Raises as Capabilities.ask."""
    memory = capabilities.ask("memory_total_bytes", "nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
    unknown = [quantity for quantity in LASTING if getattr(info, quantity.key) is None]
    limits = {quantity.key: None for quantity in LIMITS}
    return replace(
        info,
        memory_total_bytes=info.memory_total_bytes if memory is None else memory.total,
        sm_count=_sm_count(capabilities, handle) if info.sm_count is None else info.sm_count,
        **{**limits, **capabilities.read((*unknown, *LIMITS), handle)},
    )


def with_unread(info: GPUInfo, capabilities: Capabilities) -> GPUInfo:
    """The GPU, with what can't be read of it; the same object where that is as before."""
    unread = capabilities.unread()
    return info if unread == info.unread else replace(info, unread=unread)


def memory_bytes(capabilities: Capabilities, handle: Any) -> Dict[str, int]:
    """What of its memory is taken now, by Reading's names; nothing where it can't be read. Raises
    as Capabilities.ask.
    """
    memory = capabilities.ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
    if memory is None:
        return {}
    return {"memory_used_bytes": memory.used, "memory_reserved_bytes": memory.reserved}


def _sm_count(capabilities: Capabilities, handle: Any) -> Optional[int]:
    cores = capabilities.ask("sm_count", "nvmlDeviceGetNumGpuCores", handle)
    if cores is None:
        return None
    capability = capabilities.ask(
        "compute_capability", "nvmlDeviceGetCudaComputeCapability", handle
    )
    if capability is None:
        return None
    return int(cores) // CORES_PER_SM.get(tuple(capability), NEWER_CORES_PER_SM)
