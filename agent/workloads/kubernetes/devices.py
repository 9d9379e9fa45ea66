"""Device ids of NVIDIA's, GKE's and DRA's plugins -> GPUs and MIG instances of this node.

Only resources of nvidia.com count. A GPU's device that can't be led to a GPU is an error, because
"nobody holds it" would be said of a GPU that somebody holds.
"""

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Dict, Mapping, Optional, Sequence, Tuple

from agent.readings import GPUs
from agent.workloads.kubernetes.protobuf import Claimed, Device

VENDOR = "nvidia.com/"
DRIVER = "gpu.nvidia.com"  # its sister compute-domain.nvidia.com hands out channels, no GPUs
# Others of the vendor's are network cards (hostdev, rdma), virtual machines' vGPUs, or names that
# the operator chose.
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?|mig-[^/]+)")
_UUID = re.compile(r"((GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(::\d+)?")
# minor number, GPU instance, replica
_GKE = re.compile(r"nvidia(\d{1,4})(?:/gi(\d{1,4}))?(/vgpu\d+)?")


class UnknownDeviceError(Exception):
    """A device that is a GPU, but not known which."""


@dataclass(frozen=True)
class Slot:
    """A whole GPU or MIG instance, or one of the equal parts that time-slicing or MPS makes
    of it.
    """

    uuid: str
    is_part: bool = False


def slot_of(device: Device, gpus: GPUs) -> Optional[Slot]:
    """The device's slot; None for what is no GPU, and for a GPU that the driver does not list.

    Raises UnknownDeviceError.
    """
    if not is_gpu(device):
        return None
    uuid = _UUID.fullmatch(device.id)
    if uuid is not None:
        return _by_uuid(uuid.group(1), bool(uuid.group(3)), gpus)
    gke = _GKE.fullmatch(device.id)
    if gke is None:
        raise UnknownDeviceError(
            "%s has a device of no known form: %.80r" % (device.resource, device.id)
        )
    return Slot(_by_minor(device.id, gke.group(1), gke.group(2), gpus), bool(gke.group(3)))


def is_gpu(device: Device) -> bool:
    """Whether a device plugin for NVIDIA's GPUs stands behind it."""
    return _GPU_RESOURCE.fullmatch(device.resource) is not None or (
        device.resource.startswith(VENDOR) and _UUID.fullmatch(device.id) is not None
    )


def claimed_slot(
    claimed: Claimed, published: Mapping[Tuple[str, str], str], gpus: GPUs
) -> Optional[Slot]:
    """As slot_of, by what the driver published: (pool, device) -> UUID."""
    if claimed.driver != DRIVER:
        return None
    uuid = _UUID.fullmatch(published.get((claimed.pool, claimed.device), ""))
    if uuid is None:
        raise UnknownDeviceError(
            "no ResourceSlice that may be read tells which GPU %.80s of pool %.80s is"
            % (claimed.device, claimed.pool)
        )
    return _by_uuid(uuid.group(1), False, gpus)


def parts(devices: Sequence[Device], gpus: GPUs) -> Dict[str, int]:
    """GPU uuid -> into how many parts it is divided, from all devices of the node; those that lead
    nowhere are no part of any.
    """
    counts: Dict[str, int] = Counter()
    for device in devices:
        with suppress(UnknownDeviceError):
            slot = slot_of(device, gpus)
            if slot is not None and slot.is_part:
                counts[slot.uuid] += 1
    return counts


def shares(slots: Sequence[Slot], divided: Mapping[str, int]) -> Dict[str, Optional[float]]:
    """GPU uuid -> the granted share of one pod's slots; None where the number of parts is not
    known.
    """
    whole = {slot.uuid for slot in slots if not slot.is_part}
    held = Counter(slot.uuid for slot in slots if slot.is_part)
    ratios = {
        uuid: count / divided[uuid] if count <= divided.get(uuid, 0) else None
        for uuid, count in held.items()
    }
    return {slot.uuid: 1.0 if slot.uuid in whole else ratios[slot.uuid] for slot in slots}


def _by_uuid(uuid: str, is_part: bool, gpus: GPUs) -> Optional[Slot]:
    if any(gpu.uuid == uuid for gpu in gpus):
        return Slot(uuid, is_part)
    if uuid.startswith("MIG-"):
        raise UnknownDeviceError("the driver lists no MIG instance %s" % uuid)
    return None  # the card is not there any more: there is no time of it to account for


def _by_minor(name: str, minor: str, instance: Optional[str], gpus: GPUs) -> str:
    parents = [gpu.uuid for gpu in gpus if gpu.minor == int(minor) and gpu.parent_uuid is None]
    uuids = parents[:1]
    if instance is not None:
        uuids = [
            gpu.uuid
            for gpu in gpus
            if gpu.parent_uuid in uuids and gpu.gpu_instance == int(instance)
        ]
    if not uuids:
        raise UnknownDeviceError("the driver lists no GPU that is %s" % name)
    return uuids[0]
