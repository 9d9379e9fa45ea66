"""What the kubelet answers on its pod-resources socket, read without generated code.

Messages: https://github.com/kubernetes/kubelet/blob/master/pkg/apis/podresources/v1/api.proto
"""

from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Tuple

MAX_PODS = 1024  # a kubelet allows 110 by default
MAX_DEVICES = 4096  # of one answer

_VARINT = 0
_BYTES = 2
_LENGTHS = {1: 8, 5: 4}  # of the kinds with a fixed one


class MessageError(Exception):
    """Bytes that are no such message, or more than anybody needs."""


@dataclass(frozen=True)
class Device:
    """One device of a device plugin, such as ("nvidia.com/gpu", "GPU-…")."""

    resource: str
    id: str


@dataclass(frozen=True)
class Claimed:
    """One device that a pod holds by a resource claim (DRA): only its driver knows what the name
    means.
    """

    driver: str
    pool: str
    device: str


@dataclass(frozen=True)
class PodDevices:
    """What the containers of one pod hold; the socket names the pod, the checkpoint its uid."""

    namespace: str = ""
    name: str = ""
    devices: Sequence[Device] = ()
    claimed: Sequence[Claimed] = ()
    uid: str = ""


@dataclass(frozen=True)
class Books:
    """One answer: what pods hold (in the checkpoint also some that have ended), and where the books
    say it every device of the node.
    """

    held: Sequence[PodDevices]
    devices: Optional[Sequence[Device]]


def pods(message: bytes) -> List[PodDevices]:
    """The pods of a ListPodResourcesResponse. Raises MessageError."""
    answered = [_pod(value) for value in _messages(message, 1)]
    count = sum(len(pod.devices) + len(pod.claimed) for pod in answered)
    if len(answered) > MAX_PODS or count > MAX_DEVICES:
        raise MessageError("more pods or devices than a node has")
    return answered


def allocatable(message: bytes) -> List[Device]:
    """Every device of the node in an AllocatableResourcesResponse, held or not.

    Raises MessageError.
    """
    devices = [device for value in _messages(message, 1) for device in _devices(value)]
    if len(devices) > MAX_DEVICES:
        raise MessageError("more devices than a node has")
    return devices


def _pod(message: bytes) -> PodDevices:
    containers = list(_messages(message, 3))
    return PodDevices(
        namespace=_text(message, 2),
        name=_text(message, 1),
        devices=tuple(
            device
            for container in containers
            for value in _messages(container, 2)
            for device in _devices(value)
        ),
        claimed=tuple(
            Claimed(_text(value, 2), _text(value, 3), _text(value, 4))
            for container in containers
            for resource in _messages(container, 5)
            for value in _messages(resource, 4)
        ),
    )


def _devices(message: bytes) -> List[Device]:
    resource = _text(message, 1)
    return [Device(resource, _decoded(value)) for value in _messages(message, 2)]


def _text(message: bytes, number: int) -> str:
    """The last value counts, as protobuf says; "" where there is none."""
    return _decoded([b"", *_messages(message, number)][-1])


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    return (value for field, value in _fields(message) if field == number)


def _decoded(value: bytes) -> str:
    return value[:400].decode("utf-8", "replace")


def _fields(message: bytes) -> Iterator[Tuple[int, bytes]]:
    """(number, value) of each length-delimited field; the others are only stepped over."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        length = _LENGTHS.get(kind, 0)
        if kind == _VARINT:
            _, position = _varint(message, position)
        elif kind == _BYTES:
            length, position = _varint(message, position)
        elif kind not in _LENGTHS:
            raise MessageError("a field of the unknown kind %d" % kind)
        if position + length > len(message):
            raise MessageError("a field is longer than its message")
        if kind == _BYTES:
            yield key >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise MessageError("the message ends within a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MessageError("a number of more than ten bytes")
