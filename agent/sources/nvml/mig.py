"""MIG: the instances that one GPU is cut into, each with its own memory, SMs and processes.

Power, energy, temperature and clocks exist only for the whole card; utilisation for neither. On
Hopper GPM tells what each GPU instance does; an A100's instances have memory and processes alone.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional

from agent.readings import GPUInfo, Reading
from agent.sources.nvml.capabilities import FOREVER_MS, OFF, Capabilities
from agent.sources.nvml.gpm import GPM, Target
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
    gpm: Optional[Target] = None
    is_stale: bool = False  # its memory could be read and no longer can: the GPU is being cut anew

    def read(
        self, now_ms: int, *, reader: Optional[GPM], is_slow: bool, is_costly: bool
    ) -> Reading:
        """The instance now: memory when it is time for it, GPM's averages when it is time
        for them.
        """
        self.capabilities.now_ms = now_ms
        memory = (
            self.capabilities.ask(
                "memory_used_bytes", "nvmlDeviceGetMemoryInfo", self.handle, MEMORY_V2
            )
            if is_slow
            else None
        )
        self.is_stale = self.is_stale or (
            is_slow and memory is None and self.info.memory_total_bytes is not None
        )
        means = (
            reader.means(self.gpm, now_ms)
            if is_costly and reader is not None and self.gpm is not None
            else {}
        )
        return Reading(
            at_ms=now_ms,
            memory_used_bytes=None if memory is None else memory.used,
            memory_reserved_bytes=None if memory is None else memory.reserved,
            means=means,
        )

    def describe(self) -> GPUInfo:
        """The instance as it stands in the books, with what can't be read of it."""
        unread = self.capabilities.unread()
        if unread != self.info.unread:
            self.info = replace(self.info, unread=unread)
        return self.info

    def holds(self, process: Any) -> bool:
        """True when the driver says that this process runs here."""
        is_in_gpu_instance = process.gpuInstanceId == self.info.gpu_instance
        return is_in_gpu_instance and self.compute_instance in (None, process.computeInstanceId)


def is_cut(capabilities: Capabilities, handle: Any) -> bool:
    """True while MIG is on; a GPU without MIG says that it can't tell."""
    mode = capabilities.ask("mig", "nvmlDeviceGetMigMode", handle)
    return mode is not None and mode[0] == 1


def instances(
    parent: GPUInfo,
    capabilities: Capabilities,
    handle: Any,
    *,
    fresh: Callable[[], Capabilities],
    with_gpm: bool,
) -> Dict[str, Instance]:
    """The instances there are now, by UUID; `fresh` makes the capabilities of a new one."""
    count = capabilities.ask("mig", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    by_uuid: Dict[str, Instance] = {}
    for index in range(min(count, MAX_INSTANCES)):
        # NotFound is a hole: instances keep their place when others go
        mig = capabilities.ask("mig", "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        uuid = None if mig is None else capabilities.ask("mig", "nvmlDeviceGetUUID", mig)
        if uuid is not None:
            instance = _instance(parent, fresh(), mig, uuid=text_of(uuid), index=index)
            by_uuid[instance.info.uuid] = instance
    _give_gpm(list(by_uuid.values()), handle, with_gpm=with_gpm)
    return by_uuid


def _instance(
    parent: GPUInfo, capabilities: Capabilities, mig: Any, *, uuid: str, index: int
) -> Instance:
    ask = capabilities.ask
    memory = ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", mig, MEMORY_V2)
    attributes = ask("sm_count", "nvmlDeviceGetAttributes_v2", mig)
    name = ask("mig_profile", "nvmlDeviceGetName", mig)
    for column in NOT_PER_INSTANCE:
        capabilities.shut(column, "not_supported", until_ms=FOREVER_MS)
    info = replace(
        parent,
        uuid=uuid,
        index=index,
        memory_total_bytes=_memory_bytes(memory, attributes),
        power_limit_w=None,
        sm_count=None if attributes is None else attributes.multiprocessorCount,
        sm_clock_max_hz=None,
        parent_uuid=parent.uuid,
        mig_profile=_profile(name, attributes, parent.memory_total_bytes),
        gpu_instance=ask("gpu_instance", "nvmlDeviceGetGpuInstanceId", mig),
        unread={},
    )
    compute = ask("compute_instance", "nvmlDeviceGetComputeInstanceId", mig)
    return Instance(mig, info, compute, capabilities)


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


def _give_gpm(instances: List[Instance], handle: Any, *, with_gpm: bool) -> None:
    """GPM speaks of GPU instances: where several compute instances share one, its averages are
    nobody's own.
    """
    for instance in instances:
        number = instance.info.gpu_instance
        is_shared = sum(number == other.info.gpu_instance for other in instances) > 1
        if not with_gpm:
            instance.capabilities.shut("gpm", OFF, until_ms=FOREVER_MS)
        elif is_shared or number is None:
            instance.capabilities.shut("gpm", "not_supported", until_ms=FOREVER_MS)
        else:
            instance.gpm = Target(instance.capabilities, handle, number)
