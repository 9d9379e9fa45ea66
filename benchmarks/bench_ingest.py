"""Ingest: batches per second through the real view and middleware of one process, on a real Postgres with fsync.

`python -m benchmarks.bench_ingest`: nodes of 8 GPUs with one job each, 16 columns, one batch per 30 s or 60 s; no
network and no HTTP server in it. Prints medians of rounds, and what the database and Python each took of it.
"""

import gzip
import json
import statistics
import sys
import time
from datetime import UTC, datetime

import django
from django.core.management import call_command
from django.db import connection
from django.test import Client

from tests import servers as test_servers

ROUNDS, BATCHES, NODES, GPUS = 5, 200, 10, 8
COLUMNS = (
    "util_mean", "util_max", "util_min", "util_zero_fraction", "memory_used_bytes", "power_w", "energy_j", "temperature_c", "sm_active",
    "tensor_active", "dram_active", "sm_clock_hz", "process_count", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "util_p50",
)  # fmt: skip


def main() -> int:
    test_servers.FAST = ("max_connections=60", "log_min_messages=fatal")  # an answer follows an fsynced commit
    servers = test_servers.Servers()
    try:
        django.setup()
        call_command("migrate", verbosity=0)
        for windows in (3, 6):
            run(windows)
    finally:
        connection.close()
        connection.close_pool()
        servers.stop()
    return 0


def run(windows: int) -> None:
    now = datetime.now(UTC)
    start_ms = int(now.timestamp() * 1000) // 10_000 * 10_000 - (ROUNDS + 1) * BATCHES * windows * 1000 - 3_600_000
    from fleetwatch.ingest.tokens import create_agent_token

    tokens = [(f"bench-{windows}-{number}", create_agent_token(f"bench-{windows}-{number}", now)) for number in range(NODES)]
    client, rates, cpu = Client(headers={"host": "localhost"}), [], []
    for turn in range(ROUNDS + 1):
        requests = [body(*tokens[step % NODES], turn * BATCHES + step, start_ms, windows) for step in range(BATCHES)]
        began, busy = time.perf_counter(), time.process_time()
        for token, packed in requests:
            answer = client.post(
                "/api/v1/batches", packed, "application/json", headers={"authorization": f"Bearer {token}", "content-encoding": "gzip"}
            )
            assert answer.status_code == 200, answer.content
        if turn:  # the first one makes the rows
            rates.append(BATCHES / (time.perf_counter() - began))
            cpu.append((time.process_time() - busy) / BATCHES * 1000)
    rate = statistics.median(rates)
    values = rate * windows * GPUS * len(COLUMNS)
    print(
        f"{windows * 10:>3} s batches of {GPUS} GPUs: {rate:6.0f} batches/s ({min(rates):.0f} to {max(rates):.0f}),"
        f" {values / 1000:.0f} k values/s, {statistics.median(cpu):.2f} ms of Python per batch",
        file=sys.stderr,
    )


def body(node: str, token: str, number: int, start_ms: int, windows: int) -> tuple[str, bytes]:
    """(token, the gzip of one batch of the node)."""
    at = start_ms + number // NODES * windows * 10_000
    places = [place for _ in range(windows) for place in range(GPUS)]
    mapping = {
        "version": 1, "node": node, "boot_id": "b", "boot_start_ms": start_ms - 1, "sequence": number, "window_s": 10,
        "agent": {"version": "1.0.0", "driver": "580.1", "source": "nvml"},
        "sources": [{"kind": "slurm", "ok": True}],
        "gpus": [
            {"uuid": f"{node}-{place}", "index": place, "model": "NVIDIA H100 80GB HBM3", "power_limit_w": 700.0} for place in range(GPUS)
        ],
        "windows": {
            "gpu": places,
            "start_ms": [at + step * 10_000 for step in range(windows) for _ in range(GPUS)],
            "observed_ms": [10_000] * len(places),
            **{name: [(number * 7 + place * 13) % 100 / 100 for place in range(len(places))] for name in COLUMNS},
        },
        "jobs": [{"key": f"slurm/bench/{node}", "account": "nlp", "kind": "batch", "state": "RUNNING"}],
        "allocations": [{"gpu": place, "job": 0, "start_ms": start_ms, "source": "slurm", "share": 1.0} for place in range(GPUS)],
        "processes": [{"gpu": place, "job": 0, "pid": 100 + place, "name": "python"} for place in range(GPUS)],
    }  # fmt: skip
    return token, gzip.compress(json.dumps(mapping).encode(), mtime=0)


sys.exit(main())
