"""What a GPU is: asked once where it never changes, each minute where an operator may change it."""

from dataclasses import replace
from typing import Any, Optional

from agent.readings import GPUInfo
from agent.sources.nvml.capabilities import Capabilities
from agent.sources.nvml.library import MEMORY_V2, text_of

CLOCK_SM = 1
# CUDA cores of one SM; NVML tells the cores, not the SMs (CUDA programming guide, compute
# capabilities)
CORES_PER_SM = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
NEWER_CORES_PER_SM = 128


def refreshed(info: GPUInfo, capabilities: Capabilities, handle: Any) -> GPUInfo:
    """The GPU with its limits; what is None was not read. Raises as Capabilities.ask."""
    ask = capabilities.ask
    memory = ask("memory_total_bytes", "nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
    limit = ask("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", handle)
    persistence = ask("persistence", "nvmlDeviceGetPersistenceMode", handle)
    return replace(
        _lasting(info, capabilities, handle),
        memory_total_bytes=info.memory_total_bytes if memory is None else memory.total,
        power_limit_w=None if limit is None else limit / 1000,
        persistence=None if persistence is None else bool(persistence),
    )


def _lasting(info: GPUInfo, capabilities: Capabilities, handle: Any) -> GPUInfo:
    """With what never changes, asked for until it is known."""
    ask = capabilities.ask
    if info.model is None:
        name = ask("model", "nvmlDeviceGetName", handle)
        info = replace(info, model=None if name is None else text_of(name))
    if info.bus_id is None:
        bus = ask("bus_id", "nvmlDeviceGetPciInfo_v3", handle)
        info = replace(info, bus_id=None if bus is None else text_of(bus.busId))
    if info.minor is None:
        info = replace(info, minor=ask("minor", "nvmlDeviceGetMinorNumber", handle))
    if info.sm_clock_max_hz is None:
        megahertz = ask("sm_clock_max_hz", "nvmlDeviceGetMaxClockInfo", handle, CLOCK_SM)
        info = replace(info, sm_clock_max_hz=None if megahertz is None else megahertz * 1e6)
    if info.sm_count is None:
        info = replace(info, sm_count=_sm_count(capabilities, handle))
    return info


def _sm_count(capabilities: Capabilities, handle: Any) -> Optional[int]:
    cores = capabilities.ask("sm_count", "nvmlDeviceGetNumGpuCores", handle)
    capability = (
        None
        if cores is None
        else capabilities.ask("compute_capability", "nvmlDeviceGetCudaComputeCapability", handle)
    )
    return (
        None
        if capability is None
        else int(cores) // CORES_PER_SM.get(tuple(capability), NEWER_CORES_PER_SM)
    )
