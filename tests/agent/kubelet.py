"""A kubelet's pod-resources socket: a real gRPC server (grpcio) that answers with bytes written
here by hand.
"""

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

Handler = Callable[[bytes, grpc.ServicerContext], bytes]


def varint(number: int) -> bytes:
    head = bytearray()
    while number > 127:
        head.append(number & 127 | 128)
        number >>= 7
    return bytes([*head, number])


def text(number: int, value: str) -> bytes:
    return message(number, value.encode())


def message(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def devices(resource: str, *ids: str) -> bytes:
    """A ContainerDevices, with a topology, as the kubelet sends it."""
    return (
        text(1, resource)
        + b"".join(text(2, one) for one in ids)
        + message(3, message(1, whole(1, 1)))
    )


def claim(driver: str, pool: str, device: str) -> bytes:
    """A DynamicResource with one ClaimResource."""
    cdi = message(1, text(1, f"k8s.{driver}/claim=0b7c-{device}"))
    return (
        text(2, "claim")
        + text(3, "ml")
        + message(4, cdi + text(2, driver) + text(3, pool) + text(4, device))
    )


def container(name: str, *held: bytes, claims: tuple[bytes, ...] = ()) -> bytes:
    """A ContainerResources: also with CPUs and memory, which nobody asked for."""
    parts = [text(1, name), *(message(2, one) for one in held), message(3, varint(4) + varint(5))]
    return b"".join(
        [
            *parts,
            message(4, text(1, "memory") + whole(2, 1 << 34)),
            *(message(5, one) for one in claims),
        ]
    )


def pod(namespace: str, name: str, *containers: bytes) -> bytes:
    return text(1, name) + text(2, namespace) + b"".join(message(3, one) for one in containers)


def holding(namespace: str, name: str, *ids: str, resource: str = "nvidia.com/gpu") -> bytes:
    """A pod with one container that holds these."""
    return pod(namespace, name, container("main", devices(resource, *ids)))


@dataclass
class Kubelet:
    """What the next calls are answered with; an exception-raising handler may stand in `answer`."""

    path: str
    pods: list[bytes] = field(default_factory=list)
    allocatable: list[bytes] = field(default_factory=list)
    answer: Handler | None = None
    calls: list[str] = field(default_factory=list)

    def list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("List")
        return (
            self.answer(request, context)
            if self.answer
            else b"".join(message(1, one) for one in self.pods)
        )

    def get_allocatable(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("GetAllocatableResources")
        return b"".join(message(1, one) for one in self.allocatable)


@contextmanager
def running(folder: Path) -> Iterator[Kubelet]:
    """Its socket answers until the end of the block."""
    kubelet = Kubelet(str(folder / "kubelet.sock"))
    server = grpc.server(futures.ThreadPoolExecutor(2))
    methods = {"List": kubelet.list, "GetAllocatableResources": kubelet.get_allocatable}
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
    )
    server.add_insecure_port("unix:" + kubelet.path)
    server.start()
    try:
        yield kubelet
    finally:
        server.stop(None).wait()
