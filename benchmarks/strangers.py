"""Peers that are slow on purpose, against a hub of its own: what others wait meanwhile.

`python -m benchmarks.strangers [--behind nginx|caddy]`: 66 sockets that drip a body without a
token, 60 with one, 500 half heads, 200 readers of a large answer that do not read. Beside each, one
after the other: /healthz, the log-in page, a batch of another node. Bounded: only 127.0.0.1, some
seconds an attack. Not part of `make bench`: it has no peer to be compared with.
"""

import argparse
import contextlib
import gzip
import json
import math
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import running_hub, wait_for
from tests.stack.living import ROOT, free_port

ROUNDS = 100
WAIT_S = 20.0
LARGE = "/static/plotly/plotly.min.js"  # 4.5 MB, for everybody


@dataclass(frozen=True, slots=True)
class Target:
    """Where the hub, or what stands before it, listens; a token of a node that attacks and one of
    an honest node.
    """

    port: int
    bad_token: str
    good_token: str


@dataclass(frozen=True, slots=True)
class Attack:
    """So many sockets that say `first` and then a byte each second where they drip."""

    name: str
    count: int
    first: Callable[[Target], bytes]
    drips: bool = False
    receive_buffer: int | None = None


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()


def batch_head(token: str, length: int) -> bytes:
    return head(
        "POST", "/api/v1/batches", f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        "Content-Encoding: gzip", f"Content-Length: {length}",
    )  # fmt: skip


ATTACKS = (
    Attack(
        "66 bodies without a token",
        66,
        lambda target: batch_head("fw_nonsense", 1_000_000),
        drips=True,
    ),
    Attack(
        "60 bodies with a token",
        60,
        lambda target: batch_head(target.bad_token, 1_000_000),
        drips=True,
    ),
    Attack(
        "66 forms",
        66,
        lambda target: head("POST", "/accounts/login/", "Content-Length: 60000"),
        drips=True,
    ),
    Attack("500 half heads", 500, lambda target: b"GET / HTTP/1.1\r\nX-Half: ", drips=True),
    Attack("200 slow readers", 200, lambda target: head("GET", LARGE), receive_buffer=2048),
)


def main() -> None:
    """Prints the 50th and 95th percentile of each question, quiet and under each attack."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--behind", choices=("nginx", "caddy"), help="through this proxy, with its file in deploy/"
    )
    given = parser.parse_args()
    if given.behind:
        os.environ["FLEETWATCH_TRUSTED_PROXIES"] = "1"
    with running_hub(with_web=True) as hub:
        from django.utils import timezone

        from fleetwatch.ingest.tokens import create_agent_token

        assert hub.port is not None
        bad, good = (create_agent_token(name, timezone.now()) for name in ("bad", "good"))
        with proxy(given.behind, hub.port) as port:
            report(Target(port, bad, good), where=given.behind or "the hub itself")


def report(target: Target, *, where: str) -> None:
    questions = Questions(target)
    questions.ask_all()  # warms up
    print(f"{where}; ms, 50th / 95th percentile of {ROUNDS}")
    print(f"{'':28}" + "".join(f"{name:>22}" for name in questions.all))
    quiet = questions.ask_all()
    print_line("quiet", quiet)
    for attack in ATTACKS:
        with attacking(attack, target) as sockets:
            took = questions.ask_all()
            print_line(
                attack.name,
                took,
                f"   {still_open(sockets)} of {attack.count} wait" if attack.drips else "",
            )
    print_line("quiet again", questions.ask_all())


def print_line(name: str, took: dict[str, list[float]], more: str = "") -> None:
    cells = (
        f"{percentile(times, 0.5):.0f} / {percentile(times, 0.95):.0f}" for times in took.values()
    )
    print(f"{name:28}" + "".join(f"{cell:>22}" for cell in cells) + more, flush=True)


def percentile(times: list[float], share: float) -> float:
    """Milliseconds; infinite when too many were not answered."""
    return sorted(times)[math.ceil(share * len(times)) - 1] * 1000


class Questions:
    """What everybody else asks."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._sequence = 0
        self.all: dict[str, Callable[[], bytes]] = {
            "/healthz": lambda: head("GET", "/healthz", "Connection: close"),
            "log-in page": lambda: head("GET", "/accounts/login/", "Connection: close"),
            "another node's batch": self._batch,
        }

    def ask_all(self) -> dict[str, list[float]]:
        """Seconds of each answer; infinite for none within WAIT_S.

        One question that nobody answers is not asked again.
        """
        return {name: self._ask(request) for name, request in self.all.items()}

    def _ask(self, request: Callable[[], bytes]) -> list[float]:
        took: list[float] = []
        while len(took) < ROUNDS:
            took.append(self._seconds(request()))
            if math.isinf(took[-1]):
                return [math.inf] * ROUNDS
        return took

    def _seconds(self, request: bytes) -> float:
        began = time.perf_counter()
        try:
            with socket.create_connection(("127.0.0.1", self._target.port), timeout=WAIT_S) as peer:
                peer.sendall(request)
                return time.perf_counter() - began if peer.recv(12) == b"HTTP/1.1 200" else math.inf
        except OSError:
            return math.inf

    def _batch(self) -> bytes:
        self._sequence += 1
        start_ms = (int(time.time()) // 10 - 3600) * 10_000 + self._sequence * 10_000
        windows = {"gpu": [0], "start_ms": [start_ms], "observed_ms": [10_000], "util_mean": [0.5]}
        body = gzip.compress(
            json.dumps(
                {
                    "version": 1, "node": "good", "boot_id": "b",
                    "boot_start_ms": 1_600_000_000_000, "sequence": self._sequence,
                    "window_s": 10, "gpus": [{"uuid": "GPU-good", "index": 0, "model": "H100"}],
                    "windows": windows,
                }
            ).encode()
        )  # fmt: skip
        return (
            batch_head(self._target.good_token, len(body)).replace(
                b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
            )
            + body
        )


@contextlib.contextmanager
def attacking(attack: Attack, target: Target) -> Iterator[list[socket.socket]]:
    """The sockets, open and dripping until the end."""
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(_attacker(attack, target)) for _ in range(attack.count)]
        dripping = threading.Thread(target=_drip, args=(sockets, stop))
        if attack.drips:
            dripping.start()
        time.sleep(1)
        try:
            yield sockets
        finally:
            stop.set()
            if attack.drips:
                dripping.join()


def _attacker(attack: Attack, target: Target) -> socket.socket:
    peer = socket.socket()
    if attack.receive_buffer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, attack.receive_buffer)
    peer.settimeout(WAIT_S)
    peer.connect(("127.0.0.1", target.port))
    peer.sendall(attack.first(target))
    return peer


def _drip(sockets: list[socket.socket], stop: threading.Event) -> None:
    while not stop.wait(1):
        for peer in sockets:
            with contextlib.suppress(OSError):
                peer.send(b"x")


def still_open(sockets: list[socket.socket]) -> int:
    """How many of the sockets nobody answered or ended."""
    count = 0
    for peer in sockets:
        peer.setblocking(False)
        try:
            peer.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            count += 1
        except OSError:
            continue
    return count


@contextlib.contextmanager
def proxy(name: str | None, hub_port: int) -> Iterator[int]:
    """The port where to ask: the hub's own, or that of a proxy in front with our file,
    without TLS.
    """
    if name is None:
        yield hub_port
        return
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="fleetwatch-proxy-", dir="/var/tmp") as folder:
        command = {"nginx": _nginx, "caddy": _caddy}[name](Path(folder), hub_port, port)
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port, "/healthz")
            yield port
        finally:
            running.terminate()
            running.wait(10)


def _nginx(folder: Path, hub_port: int, port: int) -> list[str]:
    text = (
        (ROOT / "deploy/nginx.conf").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{hub_port}")
    )
    kept = [
        line for line in text.splitlines() if not line.strip().startswith(("ssl_", "return 301"))
    ]
    text = (
        "\n".join(kept)
        .replace("listen 80;", f"listen 127.0.0.1:{free_port()};")
        .replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    )
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = (
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_rlimit_nofile 4096;"
        " events {worker_connections 2048;}\n"
    )
    (folder / "nginx.conf").write_text(f"{whole}http {{ access_log off; {temporary}\n{text}\n}}\n")
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]


def _caddy(folder: Path, hub_port: int, port: int) -> list[str]:
    text = (
        (ROOT / "deploy/Caddyfile").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{hub_port}")
    )
    text = text.replace("\nfleetwatch.example.com {", f"\nhttp://127.0.0.1:{port} {{").replace(
        "{\n\tservers", "{\n\tadmin off\n\tservers", 1
    )
    (folder / "Caddyfile").write_text(text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


if __name__ == "__main__":
    main()
