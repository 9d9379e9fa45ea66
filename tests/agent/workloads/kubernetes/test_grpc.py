import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from agent.workloads.kubernetes import hpack
from agent.workloads.kubernetes.grpc import MAX_ANSWER_BYTES, GRPCError, call
from agent.workloads.kubernetes.protobuf import (
    Claimed,
    Device,
    MessageError,
    PodDevices,
    allocatable,
    pods,
)
from tests.agent import kubelet
from tests.agent.kubelet import Kubelet

LIST = "/v1.PodResourcesLister/List"
DATA, HEADERS, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0,
    1,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
)
STATUS_200 = b"\x88"
OK = b"\x00\x0bgrpc-status\x010"
# "grpc-status" and "14" and "down" in Huffman's code, as Go's encoder writes them.
HUFFMAN_DOWN = (
    bytes.fromhex("00889acac8b21234da8f")
    + b"\x0214"
    + bytes.fromhex("00899acac8b5254207317f")
    + b"\x04down"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Kubelet]:
    with kubelet.running(tmp_path) as running:
        yield running


def frame(kind: int, flags: int = 0, payload: bytes = b"", stream: int = 1) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(payload: bytes) -> bytes:
    return b"\x00" + struct.pack(">I", len(payload)) + payload


WELL = (
    frame(SETTINGS, stream=0)
    + frame(HEADERS, 4, STATUS_200)
    + frame(DATA, 0, message(b"pods"))
    + frame(HEADERS, 5, OK)
)


class Peer:
    """Says what it is told to after the first bytes of a call, whatever they are, and keeps what it
    hears.
    """

    def __init__(self, path: Path, says: bytes) -> None:
        self.path, self.heard = str(path), b""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=(says,))
        self._thread.start()

    def _serve(self, says: bytes) -> None:
        connection, _ = self._listener.accept()
        # the client leaves as soon as it has heard enough
        with connection, suppress(ConnectionError):
            self.heard = connection.recv(4096)
            connection.sendall(says)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(4096):
                self.heard += part

    def finish(self) -> bytes:
        self._thread.join(5)
        self._listener.close()
        return self.heard


def says(tmp_path: Path, what: bytes) -> bytes:
    """The call's answer when the peer says this."""
    peer = Peer(tmp_path / "peer.sock", what)
    try:
        return call(peer.path, LIST)
    finally:
        peer.finish()


# Against a real server


def test_the_message_of_a_real_server_comes_back(server: Kubelet):
    server.pods = [kubelet.holding("ml", "train-0", "GPU-1")]

    answer = call(server.path, LIST)

    assert pods(answer) == [PodDevices("ml", "train-0", (Device("nvidia.com/gpu", "GPU-1"),))]


def test_a_node_without_pods_is_an_empty_message_and_no_error(server: Kubelet):
    assert call(server.path, LIST) == b""


def test_answers_above_the_default_window_of_64_kib_arrive_whole(server: Kubelet):
    server.answer = lambda request, context: bytes(range(256)) * 8192  # 2 MiB

    assert call(server.path, LIST) == bytes(range(256)) * 8192


def test_an_answer_above_the_limit_is_refused(server: Kubelet):
    # and five bytes more on the wire
    server.answer = lambda request, context: b"x" * MAX_ANSWER_BYTES

    with pytest.raises(GRPCError, match="longer than 4194304 bytes"):
        call(server.path, LIST)


def test_the_request_arrives_as_it_was_given(server: Kubelet):
    server.answer = lambda request, context: request

    assert call(server.path, LIST, b"\x0a\x03abc") == b"\x0a\x03abc"


def test_a_refusal_carries_the_servers_number_and_words(server: Kubelet):
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        return context.abort(
            grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit: 100 %, späte\r\n"
        )

    server.answer = refuse

    with pytest.raises(
        GRPCError, match="^RESOURCE_EXHAUSTED: rejected by rate limit: 100 %, späte$"
    ) as raised:
        call(server.path, LIST)
    assert raised.value.status == 8


def test_an_older_kubelet_says_that_it_has_no_such_call(server: Kubelet):
    with pytest.raises(GRPCError, match="UNIMPLEMENTED") as raised:
        call(server.path, "/v1.PodResourcesLister/Get")
    assert raised.value.status == 12


def test_a_server_that_takes_too_long_is_left(server: Kubelet):
    late = threading.Event()
    server.answer = lambda request, context: b"late" if late.wait(5) else b""
    began = time.monotonic()

    with pytest.raises(GRPCError, match="in time|timed out"):
        call(server.path, LIST, timeout_s=0.1)
    assert time.monotonic() - began < 2
    late.set()


def test_no_socket_is_an_error_that_names_it(tmp_path: Path):
    with pytest.raises(GRPCError, match=r"none\.sock: No such file"):
        call(str(tmp_path / "none.sock"), LIST)


# Against a peer that says what few servers say


def test_the_client_says_what_the_standard_asks(tmp_path: Path):
    peer = Peer(tmp_path / "peer.sock", WELL)

    answer = call(peer.path, LIST)
    heard = peer.finish()

    assert answer == b"pods"
    assert heard.startswith(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x12" + bytes([SETTINGS]) + b"\x00" * 5
    )
    assert b"\x05:path\x1b/v1.PodResourcesLister/List" in heard
    assert frame(SETTINGS, 1, stream=0) in heard  # the acknowledgement


def test_a_ping_is_answered_with_its_own_bytes(tmp_path: Path):
    peer = Peer(
        tmp_path / "peer.sock",
        frame(PING, 0, b"12345678", stream=0) + frame(PING, 1, b"87654321", stream=0) + WELL,
    )

    call(peer.path, LIST)

    heard = peer.finish()
    assert frame(PING, 1, b"12345678", stream=0) in heard
    assert b"87654321" not in heard


@pytest.mark.parametrize(
    "what",
    [
        frame(HEADERS, 4, STATUS_200)
        + frame(DATA, 0, message(b"pods")[:3])
        + frame(DATA, 0, message(b"pods")[3:])
        + frame(HEADERS, 5, OK),
        frame(WINDOW_UPDATE, 0, b"\0\0\1\0")
        + frame(0xBE, 7, b"new kinds are to be ignored")
        + WELL,
        # no further calls, but this one is answered
        frame(GOAWAY, 0, b"\0\0\0\1\0\0\0\0", stream=0) + WELL,
        # an empty dynamic table
        frame(HEADERS, 4, b"\x20\x88") + frame(DATA, 0, message(b"pods")) + frame(HEADERS, 5, OK),
        frame(DATA, 0, b"another stream", stream=3) + WELL,
    ],
    ids=[
        "split",
        "unknown",
        "goaway",
        "table size",
        "other stream",
    ],
)
def test_every_shape_that_grpc_gives_an_answer_is_understood(tmp_path: Path, what: bytes):
    assert says(tmp_path, what) == b"pods"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (b"", "closed before"),
        (WELL[:-1], "closed before"),
        (frame(RST, 0, b"\0\0\0\x08"), "HTTP/2 error 8"),
        (frame(GOAWAY, 0, b"\0\0\0\0\0\0\0\0", stream=0), "ends the connection"),
        (frame(GOAWAY, 0, b"\0\0\0\1\0\0\0\x0b", stream=0), "HTTP/2 error 11"),
        (frame(HEADERS, 5, STATUS_200), "without a status"),
        (frame(HEADERS, 4, STATUS_200) + frame(DATA, 1, message(b"pods")), "without a status"),
        (frame(HEADERS, 5, STATUS_200 + OK), "not one plain message"),
        (frame(HEADERS, 5, b"\x8d"), "HTTP status 404"),
        (frame(HEADERS, 5, STATUS_200 + HUFFMAN_DOWN), "^UNAVAILABLE: down$"),
        (frame(HEADERS, 5, STATUS_200 + b"\x00\x0bgrpc-status\x0299"), "^status 99$"),
        (frame(HEADERS, 5, STATUS_200 + b"\x00\x0bgrpc-status\x03abc"), "without a status"),
        (
            frame(HEADERS, 4, STATUS_200)
            + frame(DATA, 0, b"\1" + message(b"pods")[1:])
            + frame(HEADERS, 5, OK),
            "not one plain",
        ),
        (
            frame(HEADERS, 4, STATUS_200)
            + frame(DATA, 0, message(b"pods") * 2)
            + frame(HEADERS, 5, OK),
            "not one plain",
        ),
        (b"\x00\x40\x01" + b"\0" * 20000, "16385 bytes"),
        # lawful HTTP/2 that no server of gRPC sends: its checkpoint tells the same
        (frame(HEADERS, 0, STATUS_200) + frame(CONTINUATION, 4, b""), "gRPC does not use"),
        (frame(CONTINUATION, 4, b""), "gRPC does not use"),
        (frame(HEADERS, 0x0C, b"\x02" + STATUS_200 + b"\0\0"), "gRPC does not use"),
        (frame(HEADERS, 0x24, b"\0\0\0\0\x10" + STATUS_200), "gRPC does not use"),
        (frame(DATA, 8, b"\x01abc\0"), "gRPC does not use"),
        (frame(PUSH, 4, b"\0\0\0\2\x88"), "gRPC does not use"),
        (frame(HEADERS, 4, b"\xbe"), "entry 62"),  # the dynamic table's first
        (frame(HEADERS, 4, b"\x80"), "entry 0"),
        (frame(HEADERS, 4, b"\x00\x7f\xff\xff\xff\xff\xff"), "no end"),
        (frame(HEADERS, 4, b"\x00\x05abc"), "ends early"),
        (frame(HEADERS, 4, b"\x00\x05abcde"), "ends early"),
        (frame(HEADERS, 4, b"\x00\x81\x00\x00"), "does not end as it must"),
        (frame(SETTINGS, 0, b"", stream=0) * 10_001, "more than 10000 frames"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame of 4740180 bytes"),
    ],
)
def test_everything_else_is_an_error_that_says_what_came(tmp_path: Path, what: bytes, why: str):
    with pytest.raises(GRPCError, match=why):
        says(tmp_path, what)


def test_the_examples_of_rfc_7541_are_decoded():
    # C.2.1 to C.2.3 and the value of C.4.1, which is Huffman's code of www.example.com
    assert hpack.decode(bytes.fromhex("400a637573746f6d2d6b65790d637573746f6d2d686561646572")) == {
        "custom-key": "custom-header"
    }
    assert hpack.decode(bytes.fromhex("100870617373776f726406736563726574")) == {
        "password": "secret"
    }
    assert hpack.decode(bytes.fromhex("0001618cf1e3c2e5f23a6ba0ab90f4ff")) == {
        "a": "www.example.com"
    }
    assert hpack.decode(bytes.fromhex("48826402")) == {":status": "302"}  # C.6.1


# Messages


def test_devices_and_claims_of_all_containers_are_read_and_what_else_there_is_is_stepped_over():
    first = kubelet.container(
        "a",
        kubelet.devices("nvidia.com/gpu", "GPU-1", "GPU-2"),
        kubelet.devices("rdma/hca", "mlx5_0"),
    )
    second = kubelet.container("b", claims=(kubelet.claim("gpu.nvidia.com", "node-7", "gpu-3"),))
    unknown = (
        kubelet.whole(9, 1 << 40)
        + b"\x51"
        + b"8 bytes!"
        + b"\x55"
        + b"four"
        + kubelet.text(11, "later")
    )
    answer = kubelet.message(
        1, kubelet.pod("ml", "train-0", first, second) + unknown
    ) + kubelet.message(1, kubelet.pod("web", "nginx"))

    assert pods(answer) == [
        PodDevices(
            "ml",
            "train-0",
            (
                Device("nvidia.com/gpu", "GPU-1"),
                Device("nvidia.com/gpu", "GPU-2"),
                Device("rdma/hca", "mlx5_0"),
            ),
            (Claimed("gpu.nvidia.com", "node-7", "gpu-3"),),
        ),
        PodDevices("web", "nginx"),
    ]


def test_allocatable_devices_are_read():
    answer = kubelet.message(
        1, kubelet.devices("nvidia.com/gpu", "GPU-1", "GPU-2")
    ) + kubelet.message(2, kubelet.varint(3))

    assert allocatable(answer) == [
        Device("nvidia.com/gpu", "GPU-1"),
        Device("nvidia.com/gpu", "GPU-2"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\x80",
        b"\x0b\x0c",
        b"\x80" * 11,
        b"\x09short",
        kubelet.message(1, b"\x0a\x7f"),
    ],
)
def test_bytes_that_are_no_message_are_an_error(answer: bytes):
    with pytest.raises(MessageError):
        pods(answer)


@pytest.mark.parametrize("count", [1024, 1025])
def test_the_number_of_pods_has_a_limit(count: int):
    answer = kubelet.message(1, kubelet.pod("ml", "p")) * count

    if count == 1024:
        assert len(pods(answer)) == 1024
    else:
        with pytest.raises(MessageError):
            pods(answer)
