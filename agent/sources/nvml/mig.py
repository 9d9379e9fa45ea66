"""MIG: the instances that one GPU is cut into, each with its own memory, SMs and processes.

Power, energy, temperature and clocks exist only for the whole card; utilisation for neither. On
Hopper GPM tells what each GPU instance does; an A100's instances have memory and processes alone.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional

from agent.readings import GPUInfo, Reading
from agent.sources.nvml import identity
from agent.sources.nvml.capabilities import FOREVER_MS, Capabilities
from agent.sources.nvml.gpm import GPM
from agent.sources.nvml.library import MEMORY_V2, text_of

MAX_INSTANCES = 64  # per GPU: the hardware has 7 or 8
MIB = 2**20
GIB = 2**30
EIGHTHS = 8  # of the memory, in which NVIDIA names the profiles
NOT_PER_INSTANCE = ("util_mean", "power_w", "energy_j", "temperature_c", "sm_clock_hz")
_PROFILE = re.compile(r"MIG (\d+c\.)?(\d+g\.\d+gb\S{0,16})")


@dataclass
class Instance:
    """A MIG device: a compute instance within a GPU instance."""

    handle: Any
    info: GPUInfo
    compute_instance: Optional[int]
    capabilities: Capabilities
    gpm: GPM
    is_stale: bool = False  # its memory could be read and no longer can: the GPU is being cut anew

    def read(self, now_ms: int, *, is_slow: bool, is_costly: bool) -> Reading:
        """The instance now: memory when it is time for it, GPM's averages when it is time
        for them.
        """
        self.capabilities.now_ms = now_ms
        values: Dict[str, Any] = {}
        if is_slow:
            values.update(identity.memory_bytes(self.capabilities, self.handle))
        if is_slow and not values and self.info.memory_total_bytes is not None:
            self.is_stale = True
        if is_costly:
            values["means"] = self.gpm.means(now_ms)
        return Reading(now_ms, **values)

    def describe(self) -> GPUInfo:
        """The instance as it stands in the books, with what can't be read of it."""
        self.info = identity.with_unread(self.info, self.capabilities)
        return self.info

    def holds(self, process: Any) -> bool:
        """True when the driver says that this process runs here."""
        is_in_gpu_instance = process.gpuInstanceId == self.info.gpu_instance
        return is_in_gpu_instance and self.compute_instance in (None, process.computeInstanceId)


def is_cut(capabilities: Capabilities, handle: Any) -> bool:
    """True while MIG is on; a GPU without MIG says that it can't tell."""
    mode = capabilities.ask("mig", "nvmlDeviceGetMigMode", handle)
    return mode is not None and mode[0] == 1


def instances(parent: GPUInfo, capabilities: Capabilities, handle: Any) -> Dict[str, Instance]:
    """The instances of the GPU that there are now, by UUID."""
    ask = capabilities.ask
    by_uuid: Dict[str, Instance] = {}
    count = ask("mig", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    for index in range(min(count, MAX_INSTANCES)):
        # NotFound is a hole: instances keep their place when others go
        mig = ask("mig", "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        uuid = None if mig is None else ask("mig", "nvmlDeviceGetUUID", mig)
        if uuid is not None:
            info = replace(parent, uuid=text_of(uuid), index=index, parent_uuid=parent.uuid)
            by_uuid[info.uuid] = _instance(info, capabilities.fresh(), mig, handle)
    _shut_shared(list(by_uuid.values()))
    return by_uuid


def _shut_shared(instances: List[Instance]) -> None:
    """GPM speaks of GPU instances: where several compute instances share one, its averages are
    nobody's own.
    """
    shares = Counter(instance.gpm.instance for instance in instances)
    for instance in instances:
        if instance.gpm.instance is None or shares[instance.gpm.instance] > 1:
            shut_gpm(instance.capabilities)


def shut_gpm(capabilities: Capabilities) -> None:
    """GPM has nothing to tell of it; where the operator switched GPM off, that stays the reason."""
    if capabilities.is_open("gpm"):
        capabilities.shut("gpm", "not_supported", until_ms=FOREVER_MS)


def _instance(info: GPUInfo, capabilities: Capabilities, mig: Any, handle: Any) -> Instance:
    """The instance of that name, of the GPU under that handle; what else its info says is still its
    parent's.
    """
    ask = capabilities.ask
    memory = ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", mig, MEMORY_V2)
    attributes = ask("sm_count", "nvmlDeviceGetAttributes_v2", mig)
    name = ask("mig_profile", "nvmlDeviceGetName", mig)
    number = ask("gpu_instance", "nvmlDeviceGetGpuInstanceId", mig)
    for column in NOT_PER_INSTANCE:
        capabilities.shut(column, "not_supported", until_ms=FOREVER_MS)
    info = replace(
        info,
        memory_total_bytes=_memory_bytes(memory, attributes),
        power_limit_w=None,
        sm_count=None if attributes is None else attributes.multiprocessorCount,
        sm_clock_max_hz=None,
        mig_profile=_profile(name, attributes, info.memory_total_bytes),
        gpu_instance=number,
        unread={},
    )
    compute = ask("compute_instance", "nvmlDeviceGetComputeInstanceId", mig)
    return Instance(mig, info, compute, capabilities, GPM(capabilities, handle, number))


def _memory_bytes(memory: Any, attributes: Any) -> Optional[int]:
    if memory is not None:
        return int(memory.total)
    return None if attributes is None else int(attributes.memorySizeMB) * MIB


def _profile(name: Any, attributes: Any, total_bytes: Optional[int]) -> Optional[str]:
    """As NVIDIA names it, 1g.10gb or 1c.2g.20gb; None where neither the name nor the shares tell
    it.
    """
    match = None if name is None else _PROFILE.search(text_of(name))
    if match is not None:
        return match.group(0)[len("MIG ") :]
    if attributes is None or not total_bytes:
        return None
    # the name says which part of the card's whole GiB the instance has, not what it can use of it
    eighths = -(-attributes.memorySizeMB * MIB * EIGHTHS // total_bytes)
    gigabytes = round(eighths / EIGHTHS * -(-total_bytes // GIB))
    slices = attributes.gpuInstanceSliceCount
    compute = attributes.computeInstanceSliceCount
    return "%s%dg.%dgb" % ("" if compute == slices else "%dc." % compute, slices, gigabytes)
