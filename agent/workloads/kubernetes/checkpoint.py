"""The kubelet's own notes on devices, for when its socket does not answer:
kubelet_internal_checkpoint.

Entries of finished pods stay until their devices are given to another pod, so whoever reads them
must know which pods live.
"""

import json
from typing import Any, Dict, List

from agent.json_parts import Object
from agent.workloads.kubernetes.protobuf import MAX_DEVICES, Books, Device, PodDevices

MAX_BYTES = 4 * 1024 * 1024


class CheckpointError(Exception):
    """The notes can't be read, or are none."""


def read_checkpoint(path: str) -> Books:
    """The notes as they stand. Raises CheckpointError."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CheckpointError("%s: %s" % (path, error.strerror)) from error
    if len(text) > MAX_BYTES:
        raise CheckpointError("%s: longer than %d bytes" % (path, MAX_BYTES))
    try:
        return _parse(json.loads(text))
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        raise CheckpointError("%s: not the kubelet's notes (%s)" % (path, error)) from error


def _parse(answer: Object) -> Books:
    data = answer.get("Data")
    if not isinstance(data, dict):
        raise ValueError("no Data")
    pods = _pods(data.get("PodDeviceEntries") or ())
    resources = (data.get("RegisteredDevices") or {}).items()
    registered = [device for resource, ids in resources for device in _devices(resource, ids)]
    if len(registered) + sum(len(pod.devices) for pod in pods) > MAX_DEVICES:
        raise ValueError("more devices than a node has")
    return Books(pods, registered)


def _pods(entries: Any) -> List[PodDevices]:
    held: Dict[str, List[Device]] = {}
    for entry in entries:
        devices = _devices(entry.get("ResourceName"), entry.get("DeviceIDs"))
        if devices:
            held.setdefault(str(entry["PodUID"]), []).extend(devices)
    return [PodDevices(devices=devices, uid=uid) for uid, devices in held.items()]


def _devices(resource: Any, ids: Any) -> List[Device]:
    """Of a list of ids, or since Kubernetes 1.20 of one per NUMA node."""
    groups = ids.values() if isinstance(ids, dict) else [ids]
    return [Device(str(resource), str(name)) for group in groups for name in group or ()]
