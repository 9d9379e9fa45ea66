"""From Slurm's index of a GPU on this node to the GPU.

With AutoDetect=nvml the index is the order on the PCI bus, with File=/dev/nvidia[0-7] it is the
order of the files, whose numbers are the driver's minor numbers. On many boards the two orders
differ, and taking one for the other moves GPU hours from one job to another.
"""

import re
from typing import List, Optional, Sequence, Tuple

from agent.readings import GPUInfo, GPUs, SchedulerError
from agent.workloads.slurm.lists import hosts, split

MAX_BYTES = 1024 * 1024
# Where gres.conf lies: packages, sources, the copy that a "configless" slurmd keeps.
FOLDERS = (
    "/etc/slurm",
    "/run/slurm/conf",
    "/var/spool/slurmd/conf-cache",
    "/etc/slurm-llnl",
    "/usr/local/etc",
    "/opt/slurm/etc",
)

_PAIR = re.compile(r"(\w+)=(\S+)")
_MINOR = re.compile(r"/dev/nvidia(\d+)$")


def minors(gres_conf: str, nodes: Sequence[str]) -> Optional[List[int]]:
    """Minor numbers by Slurm's index, from the File lines that are this node's; None where Slurm
    finds the GPUs itself.

    Raises SchedulerError for a line whose files can't be counted.
    """
    listed: List[int] = []
    for line in gres_conf.replace("\\\n", " ").splitlines():
        pairs = {
            name.lower(): value.strip('"') for name, value in _PAIR.findall(line.partition("#")[0])
        }
        if not _is_ours(pairs.get("nodename"), nodes):
            continue
        if pairs.get("autodetect", "off").lower() != "off":
            return None
        files = pairs.get("file") or pairs.get("multiplefiles")
        if pairs.get("name", "").lower() == "gpu" and files:
            listed += _minors_of(files)
    return listed or None


def order(gpus: GPUs, by_minor: Optional[Sequence[int]]) -> List[Optional[str]]:
    """UUIDs by Slurm's index: a GPU, or in its place its MIG instances.

    None where the driver does not show the device.
    """
    parents = [gpu for gpu in gpus if gpu.parent_uuid is None]
    by_place: List[Optional[GPUInfo]] = [*sorted(parents, key=_place)]
    if by_minor is not None:
        gpu_of = {gpu.minor: gpu for gpu in parents}
        by_place = [gpu_of.get(minor) for minor in by_minor]
    return [uuid for gpu in by_place for uuid in ([None] if gpu is None else _parts(gpu, gpus))]


def _is_ours(names: Optional[str], nodes: Sequence[str]) -> bool:
    if names is None:
        return True
    try:
        return bool(set(hosts(names)) & set(nodes))
    except ValueError:
        return False


def _minors_of(files: str) -> List[int]:
    """The minor numbers of `/dev/nvidia[0-3]`; of MultipleFiles only the GPU's own file has one.

    Raises SchedulerError.
    """
    try:
        matches = [_MINOR.match(path) for part in split(files) for path in hosts(part)]
    except ValueError as error:
        raise SchedulerError("gres.conf names the files %.80r, which is no list" % files) from error
    return [int(match.group(1)) for match in matches if match is not None]


def _parts(gpu: GPUInfo, gpus: GPUs) -> List[Optional[str]]:
    instances: List[Optional[str]] = [other.uuid for other in gpus if other.parent_uuid == gpu.uuid]
    return instances or [gpu.uuid]


def _place(gpu: GPUInfo) -> Tuple[int, ...]:
    """The place on the PCI bus; the driver's index, which is the same order, where the bus id is
    not known.
    """
    try:
        return (0, *(int(part, 16) for part in re.split(r"[:.]", gpu.bus_id or "")))
    except ValueError:
        return (1, gpu.index if gpu.index is not None else 0)
