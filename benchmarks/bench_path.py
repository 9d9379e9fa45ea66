"""The whole path on this machine: batches over HTTP into the hub, posted to the ledger, sealed, and asked for.

Prints seconds of CPU of the server side (web, Postgres) beside the clock's: machines
differ and drift, and the client runs on the same cores.
"""

import http.client
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import django

from agent import wire
from tests.servers import Servers
from tests.stack.living import ROOT, free_port

NODES, GPUS, WINDOWS, BATCHES = 25, 8, 6, 20  # 25 nodes, ten minutes of batches of 60 s
COLUMNS = (
    "util_mean", "util_max", "util_zero_fraction", "memory_used_bytes", "power_w", "power_max_w", "energy_j", "sm_active", "sm_occupancy",
    "tensor_active", "dram_active", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "temperature_c", "sm_clock_hz", "process_count",
)  # fmt: skip
DURABLE = ("max_connections=60", "log_min_messages=fatal")  # fsync on: an answer follows a durable commit
TICKS = os.sysconf("SC_CLK_TCK")


def batch(node: str, sequence: int, begin_ms: int) -> bytes:
    """A batch of 60 s of eight GPUs, no two alike, as it travels."""
    draw = random.Random(f"{node}/{sequence}")
    rows = WINDOWS * GPUS
    windows = {
        "gpu": [row % GPUS for row in range(rows)],
        "start_ms": [begin_ms + (row // GPUS) * 10_000 for row in range(rows)],
        "observed_ms": [10_000] * rows,
        **{name: [round(draw.random(), 4) for _ in range(rows)] for name in COLUMNS},
    }
    gpus = [
        {"uuid": f"GPU-{node}-{index}", "index": index, "model": "NVIDIA H100 80GB HBM3", "power_limit_w": 700.0} for index in range(GPUS)
    ]
    made = {"version": 1, "node": node, "boot_id": "bench", "boot_start_ms": begin_ms, "sequence": sequence, "window_s": 10, "gpus": gpus}
    return wire.compress(wire.encode(wire.parse({**made, "windows": windows})))


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


def post_all(url: str, tokens: dict[str, str], bodies: dict[str, list[bytes]]) -> str:
    """Posts every body over one kept connection per node; raises RuntimeError when one is refused."""
    place = urlsplit(url)
    for node, token in tokens.items():
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        for body in bodies[node]:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Content-Encoding": "gzip"}
            connection.request("POST", "/api/v1/batches", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{answer.status} {text!r}")
        connection.close()
    count = NODES * BATCHES
    size = sum(len(body) for each in bodies.values() for body in each) / count
    return f"{count} batches, {count * GPUS * WINDOWS * len(COLUMNS):,} values, {size:,.0f} bytes each"


def main() -> None:
    servers = Servers(DURABLE)
    web: subprocess.Popen[bytes] | None = None
    try:
        django.setup()
        web = run(servers)
    finally:
        if web is not None:
            web.terminate()
            web.wait(10)
        servers.stop()


def run(servers: Servers) -> "subprocess.Popen[bytes]":
    """Measures each stage; gives the web server, still running."""
    from django.core.management import call_command
    from django.utils import timezone

    from fleetwatch.costs.selectors import totals_by
    from fleetwatch.costs.services import ensure_example_rates
    from fleetwatch.ingest.tokens import create_agent_token
    from fleetwatch.ledger.services import post
    from fleetwatch.lib.intervals import Interval, to_ms
    from fleetwatch.telemetry.seal import seal_closed_hours

    call_command("migrate", verbosity=0)
    now = timezone.now()
    begin = (now - timedelta(hours=3)).replace(minute=10, second=0, microsecond=0)
    names = [f"node-{number:03}" for number in range(NODES)]
    tokens = {name: create_agent_token(name, now) for name in names}
    bodies = {name: [batch(name, number, to_ms(begin) + number * 60_000) for number in range(BATCHES)] for name in names}
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "granian",
        "--interface",
        "wsgi",
        "--port",
        str(port),
        "--no-ws",
        "--log-level",
        "error",
        "--backlog",
        "128",
    ]
    web = subprocess.Popen([*command, "fleetwatch.wsgi:application"], cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(port)

    def server_side() -> set[int]:
        return family(web.pid) | family(servers.postgres.pid)

    def here_and_postgres() -> set[int]:
        return {os.getpid()} | family(servers.postgres.pid)

    measured("ingest over HTTP", lambda: post_all(f"http://127.0.0.1:{port}", tokens, bodies), server_side)
    measured("ingest again (replay)", lambda: post_all(f"http://127.0.0.1:{port}", tokens, bodies), server_side)
    ensure_example_rates(now)
    measured("post to the ledger", lambda: str(post(timezone.now(), 10_000)), here_and_postgres)
    measured("seal", lambda: str(seal_closed_hours(timezone.now(), 10_000)), here_and_postgres)
    day = Interval(datetime.now(UTC) - timedelta(days=1), datetime.now(UTC))
    measured("waste by node, one day", lambda: f"{len(totals_by(day, 'node'))} rows", here_and_postgres)
    return web


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
