"""The kubelet's own notes on devices, for when its socket does not answer:
kubelet_internal_checkpoint.

Entries of finished pods stay until their devices are given to another pod, so whoever reads them
must know which pods live.
"""

import json
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from agent.workloads.kubernetes.protobuf import MAX_DEVICES, Device

MAX_BYTES = 4 * 1024 * 1024


class CheckpointError(Exception):
    """The notes can't be read, or are none."""


@dataclass(frozen=True)
class Checkpoint:
    """`held`: pod uid -> its devices, also of pods that have ended.

    `registered`: every device of every plugin.
    """

    held: Mapping[str, Sequence[Device]]
    registered: Sequence[Device]


def read_checkpoint(path: str) -> Checkpoint:
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


def _parse(answer: Mapping[str, Any]) -> Checkpoint:
    data = answer.get("Data")
    if not isinstance(data, dict):
        raise ValueError("no Data")
    held: Dict[str, List[Device]] = {}
    for uid, device in _entries(data.get("PodDeviceEntries") or ()):
        held.setdefault(uid, []).append(device)
    registered = [
        Device(str(resource), name)
        for resource, ids in (data.get("RegisteredDevices") or {}).items()
        for name in _ids(ids)
    ]
    if len(registered) + sum(len(devices) for devices in held.values()) > MAX_DEVICES:
        raise ValueError("more devices than a node has")
    return Checkpoint(held, registered)


def _entries(entries: Sequence[Mapping[str, Any]]) -> Iterator[Tuple[str, Device]]:
    for entry in entries:
        for name in _ids(entry.get("DeviceIDs")):
            yield str(entry["PodUID"]), Device(str(entry.get("ResourceName")), name)


def _ids(given: Any) -> List[str]:
    """A list, or since Kubernetes 1.20 one per NUMA node."""
    groups = given.values() if isinstance(given, dict) else [given]
    return [str(name) for group in groups for name in group or ()]
