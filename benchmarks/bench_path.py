"""The whole path on this machine: batches over HTTP into the hub, posted to the ledger, sealed, and asked for.

Prints seconds of CPU of the server side (web, Postgres) beside the clock's: machines
differ and drift, and the client runs on the same cores. Ingest runs as in production
(granian with its door, Postgres with fsync on), medians of rounds that take turns.
"""

import http.client
import os
import random
import socket
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django

from agent import wire
from tests.servers import Servers
from tests.stack.living import free_port

NODES, GPUS, ROUNDS = 125, 8, 3
CONNECTIONS = (1, 4, 16)
# Name -> windows of a batch, batches of a node in one measurement, whether it speaks of jobs as an agent beside Slurm does.
KINDS = {"60 s": (6, 4, False), "60 s, with jobs": (6, 4, True), "10 s": (1, 8, False)}
COLUMNS = (
    "util_mean", "util_max", "util_zero_fraction", "memory_used_bytes", "power_w", "power_max_w", "energy_j", "sm_active", "sm_occupancy",
    "tensor_active", "dram_active", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "temperature_c", "sm_clock_hz", "process_count",
)  # fmt: skip
DURABLE = ("max_connections=60", "log_min_messages=fatal")  # fsync on: an answer follows a durable commit
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Sender:
    """One node's agent: what it has sent so far."""

    node: str
    token: str
    boot_ms: int
    sequence: int = 0
    until_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.until_ms = self.boot_ms

    def request(self, windows: int, *, with_jobs: bool) -> bytes:
        """The HTTP request of its next batch."""
        body = batch(self.node, self.sequence, self.until_ms, windows=windows, boot_ms=self.boot_ms, with_jobs=with_jobs)
        self.sequence, self.until_ms = self.sequence + 1, self.until_ms + windows * 10_000
        head = (
            "POST /api/v1/batches HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def batch(node: str, sequence: int, begin_ms: int, *, windows: int = 6, boot_ms: int | None = None, with_jobs: bool = False) -> bytes:
    """A batch of eight GPUs, no two alike, as it travels."""
    draw = random.Random(f"{node}/{sequence}")
    rows = windows * GPUS
    columns = {
        "gpu": [row % GPUS for row in range(rows)],
        "start_ms": [begin_ms + (row // GPUS) * 10_000 for row in range(rows)],
        "observed_ms": [10_000] * rows,
        **{name: [round(draw.random(), 4) for _ in range(rows)] for name in COLUMNS},
    }
    gpus = [
        {"uuid": f"GPU-{node}-{index}", "index": index, "model": "NVIDIA H100 80GB HBM3", "power_limit_w": 700.0} for index in range(GPUS)
    ]
    boot = begin_ms if boot_ms is None else boot_ms
    made = {"version": 1, "node": node, "boot_id": "bench", "boot_start_ms": boot, "sequence": sequence, "window_s": 10, "gpus": gpus}
    said = jobs(node, begin_ms, draw) if with_jobs else {}
    return wire.compress(wire.encode(wire.parse({**made, **said, "windows": columns})))


def jobs(node: str, begin_ms: int, draw: random.Random) -> dict[str, Any]:
    """Two jobs of four GPUs each, with their processes, and the host's samples."""
    return {
        "agent": {"version": "1.0.0", "driver": "580.159.04", "source": "nvml", "cpu_s": draw.random(), "rss_bytes": 21_000_000},
        "sources": [{"kind": "slurm", "ok": True, "seen_ms": begin_ms}],
        "host": {"start_ms": [begin_ms], "cpu_ratio": [draw.random()]},
        "jobs": [
            {"key": f"slurm/c/{node}-{half}", "user": "ann", "account": "nlp", "kind": "batch", "state": "RUNNING"} for half in (1, 2)
        ],
        "allocations": [{"gpu": gpu, "job": gpu // 4, "start_ms": 1, "source": "slurm", "share": 1.0} for gpu in range(GPUS)],
        "processes": [
            {"gpu": gpu, "job": gpu // 4, "pid": 1000 + gpu, "name": "python", "memory_bytes": draw.randrange(2**36)} for gpu in range(GPUS)
        ],
    }


def cpu_seconds(pids: set[int]) -> float:
    """User and system time of these processes."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def family(root: int) -> set[int]:
    """A process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return found


def measured(label: str, work: Callable[[], str], pids: Callable[[], set[int]]) -> None:
    """Runs the work and prints what it took."""
    before, began = cpu_seconds(pids()), time.perf_counter()
    said = work()
    print(f"{label:<28} {time.perf_counter() - began:7.2f} s  {cpu_seconds(pids()) - before:7.2f} CPU-s  {said}", flush=True)


def post(port: int, queues: Sequence[Sequence[bytes]]) -> list[float]:
    """Seconds that each answer took; every queue goes over one kept connection. Raises RuntimeError when one is refused."""

    def empty(queue: Sequence[bytes]) -> list[float]:
        took = []
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for request in queue:
                began = time.perf_counter()
                connection.sendall(request)
                answer = connection.recv(65_536)
                while not answer.endswith(b"}"):
                    answer += connection.recv(65_536)
                took.append(time.perf_counter() - began)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(answer.decode())
        return took

    with ThreadPoolExecutor(len(queues)) as pool:
        return [seconds for each in pool.map(empty, queues) for seconds in each]


def queues_of(senders: Sequence[Sender], connections: int, kind: str) -> list[list[bytes]]:
    """The next batches of all nodes, each node's in order on one connection."""
    windows, count, with_jobs = KINDS[kind]
    queues: list[list[bytes]] = [[] for _ in range(connections)]
    for _ in range(count):
        for place, sender in enumerate(senders):
            queues[place % connections].append(sender.request(windows, with_jobs=with_jobs))
    return queues


def measure_ingest(senders: Sequence[Sender], port: int, web: set[int], postgres: Callable[[], set[int]]) -> None:
    """Prints each kind of batch at each number of connections."""
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = defaultdict(list)
    for _ in range(ROUNDS):
        for kind in KINDS:
            for connections in CONNECTIONS:
                queues = queues_of(senders, connections, kind)
                post(port, [[queue.pop(0)] for queue in queues])  # not measured: the first of its kind
                before = cpu_seconds(web), cpu_seconds(postgres())
                took = post(port, queues)
                used = cpu_seconds(web) - before[0], cpu_seconds(postgres()) - before[1]
                found[kind, connections].append((used[0] / len(took), used[1] / len(took), statistics.median(took)))
    print(f"{'ingest: CPU of one batch':<28} {'web':>9} {'Postgres':>9} {'values/s of a core':>20} {'median answer':>14}")
    for (kind, connections), rounds in found.items():
        web_s, postgres_s, answer_s = (statistics.median(each) for each in zip(*rounds, strict=True))
        rate = KINDS[kind][0] * GPUS * len(COLUMNS) / (web_s + postgres_s)
        label = f"  {kind}, {connections} at once"
        print(f"{label:<28} {web_s * 1e6:6.0f} us {postgres_s * 1e6:6.0f} us {rate / 1e6:18.2f} M {answer_s * 1e3:11.1f} ms", flush=True)


def main() -> None:
    servers = Servers(DURABLE)
    web: subprocess.Popen[bytes] | None = None
    try:
        django.setup()
        web, port = started_web()
        run(servers, web, port)
    finally:
        if web is not None:
            web.terminate()
            web.wait(10)
        servers.stop()


def started_web() -> "tuple[subprocess.Popen[bytes], int]":
    """The web server as `manage.py up` starts it, and its port."""
    from django.core.management import call_command

    from fleetwatch.stack import plan

    call_command("migrate", verbosity=0)
    port = free_port()
    spec = plan.web(dict(os.environ), plan.Listen("127.0.0.1", port))
    web = subprocess.Popen(spec.command, cwd=spec.folder, env=dict(spec.environment), stderr=subprocess.DEVNULL)
    wait_for(port)
    return web, port


def run(servers: Servers, web: "subprocess.Popen[bytes]", port: int) -> None:
    """Measures each stage."""
    from django.utils import timezone

    from fleetwatch.costs.selectors import totals_by
    from fleetwatch.costs.services import ensure_example_rates
    from fleetwatch.ingest.tokens import create_agent_token
    from fleetwatch.ledger.services import post as post_ledger
    from fleetwatch.lib.intervals import Interval, to_ms
    from fleetwatch.telemetry.seal import seal_closed_hours

    now = timezone.now()
    begin_ms = to_ms((now - timedelta(hours=6)).replace(minute=0, second=0, microsecond=0))
    names = [f"node-{number:03}" for number in range(NODES)]
    senders = [Sender(name, create_agent_token(name, now), begin_ms) for name in names]

    def postgres() -> set[int]:
        return family(servers.postgres.pid)

    def here_and_postgres() -> set[int]:
        return {os.getpid()} | postgres()

    post(port, queues_of(senders, 4, "60 s"))  # the nodes become known
    measure_ingest(senders, port, family(web.pid), postgres)
    ensure_example_rates(now)
    measured("post to the ledger", lambda: str(post_ledger(timezone.now(), 10_000)), here_and_postgres)
    measured("seal", lambda: str(seal_closed_hours(timezone.now(), 10_000)), here_and_postgres)
    day = Interval(datetime.now(UTC) - timedelta(days=1), datetime.now(UTC))
    measured("waste by node, one day", lambda: f"{len(totals_by(day, 'node'))} rows", here_and_postgres)


def wait_for(port: int) -> None:
    """Returns when something listens there; raises TimeoutError after 20 s."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"nothing answers on port {port}")


if __name__ == "__main__":
    main()
