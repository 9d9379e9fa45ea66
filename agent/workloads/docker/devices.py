"""Which GPUs a container was given by name, number or device file.

"All" is what a container may see, and images of CUDA ask for it by themselves: no allocation,
unless the operator says so. An index is NVML's, as the NVIDIA Container Toolkit counts.
"""

import re
from typing import List, Optional, Sequence

from agent.json_parts import Object, part, parts, texts
from agent.readings import GPUs

ALL = "all"
MAX_NAMES = 256
# the one variable that is read of a container's environment, which holds secrets
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CDI = "nvidia.com/"
MIN_PREFIX = len("GPU-") + 8  # of a UUID: enough to be meant as one
_FILE = re.compile(r"/dev/nvidia(\d{1,3})")
_INDEX = re.compile(r"(?:gpu)?(\d{1,3})")  # the toolkit's CDI names were gpu0, and are 0


def names(answer: Object) -> List[str]:
    """What the container was given, in the words of its request; ALL among them for all.

    The variable counts only where nothing else was asked for and a runtime of NVIDIA's reads it.
    """
    host = part(answer, "HostConfig")
    asked = [name for request in parts(host, "DeviceRequests") for name in _requested(request)]
    files = [str(device.get("PathOnHost")) for device in parts(host, "Devices")]
    asked += [cdi for path in files for cdi in _cdi(path)]
    asked += filter(_FILE.fullmatch, files)
    if not asked and "nvidia" in str(host.get("Runtime")):
        asked = _visible(texts(part(answer, "Config"), "Env"))
    return asked[:MAX_NAMES]


def gpus_named(asked: Sequence[str], gpus: GPUs, *, all_counts: bool) -> List[str]:
    """The UUIDs of this node's GPUs that are given by these names; what is not here is left out."""
    if ALL in asked and all_counts:
        return [gpu.uuid for gpu in gpus if gpu.parent_uuid is None]
    uuids = [_uuid(name, gpus) for name in asked if name != ALL]
    return list(dict.fromkeys(uuid for uuid in uuids if uuid is not None))


def _requested(request: Object) -> List[str]:
    """Of one DeviceRequest:
    https://docs.docker.com/reference/api/engine/version/v1.47/#tag/Container/operation/ContainerCreate
    """
    driver = request.get("Driver")
    count = request.get("Count")
    ids = texts(request, "DeviceIDs")
    if driver == "cdi":
        return [device for name in ids for device in _cdi(name)]
    groups = request.get("Capabilities")
    wants_gpu = isinstance(groups, list) and any(
        isinstance(group, list) and "gpu" in group for group in groups
    )
    if driver != "nvidia" and (driver not in ("", None) or not wants_gpu):
        return []
    if ids:
        return ids
    if not isinstance(count, int) or count == 0:
        return []
    # Docker takes the first ones
    return [ALL] if count < 0 else [str(index) for index in range(min(count, MAX_NAMES))]


def _cdi(name: str) -> List[str]:
    """The device in `nvidia.com/gpu=0`; nothing of other vendors'."""
    kind, sign, device = name.partition("=")
    return [device] if kind.startswith(CDI) and sign and device else []


def _visible(environment: Sequence[str]) -> List[str]:
    """`void`, `none` and nothing are no GPU; the last of several counts."""
    values = [text.partition("=")[2] for text in environment if text.startswith(VISIBLE + "=")]
    asked = [name.strip() for name in values[-1].split(",")] if values else []
    return [name for name in asked if name not in ("", "void", "none")]


def _uuid(name: str, gpus: GPUs) -> Optional[str]:
    file = _FILE.fullmatch(name)
    index = _INDEX.fullmatch(name)
    boards = [gpu for gpu in gpus if gpu.parent_uuid is None]
    if file is not None:
        uuids = [gpu.uuid for gpu in boards if gpu.minor == int(file.group(1))]
    elif index is not None:
        uuids = [gpu.uuid for gpu in boards if gpu.index == int(index.group(1))]
    else:
        uuids = [gpu.uuid for gpu in gpus if len(name) >= MIN_PREFIX and gpu.uuid.startswith(name)]
    return uuids[0] if len(uuids) == 1 else None
