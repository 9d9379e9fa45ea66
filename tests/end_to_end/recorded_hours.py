"""Recorded hours that agents replay to a hub, and what its ledger makes of them."""

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.stack.living import ROOT

LOGS = 12
START = datetime(2026, 11, 3, tzinfo=UTC)
ENTRIES = """
    SELECT gpu.model_name, entry.start, job.key, entry.state, entry.kind, entry.reason, entry.signal, entry.tier, entry.gpu_ms,
           round(entry.energy_j::numeric, 3)
    FROM ledger_entry entry
    JOIN inventory_gpu gpu ON gpu.id = entry.gpu_id
    JOIN inventory_node node ON node.id = gpu.node_id
    LEFT JOIN jobs_job job ON job.id = entry.job_id
    WHERE node.name = %s
"""
RECEIVED = """
    SELECT coalesce(sum(upper(part) - lower(part)), 0)::int FROM telemetry_receivedsequence received
    JOIN inventory_node node ON node.id = received.node_id, unnest(received.received) part
    WHERE node.name = %s
"""


def write_logs(folder: Path) -> list[Path]:
    """Recorded hours of one GPU each, all different: work, sawtooth and silence in turn."""
    paths = []
    for number in range(LOGS):
        draw = random.Random(number)
        lines = [
            "timestamp, index, name, utilization.gpu [%], power.draw [W], memory.used [MiB],"
            " power.limit [W]"
        ]
        begin = START + timedelta(hours=number)
        util = 0
        for step in range(720):
            if step % 60 == 0:
                util = draw.choice((0, 0, 35, 100))
            at = (begin + timedelta(seconds=5 * step)).strftime("%Y/%m/%d %H:%M:%S.000")
            lines.append(
                f"{at}, 0, NVIDIA H100 80GB HBM3, {util} %, {80 + 5 * util + number}.00 W, 4096"
                " MiB, 700.00 W"
            )
        paths.append(folder / f"hour-{number:02}.csv")
        paths[-1].write_text("\n".join(lines) + "\n")
    return paths


def replaying(server: str, node: str, logs: list[Path], token: str) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "agent",
        "replay",
        *map(str, logs),
        "--server",
        server,
        "--token",
        token,
        "--node",
        node,
    ]
    command += ["--job", "slurm/della/4711", "--user", "ann", "--kind", "batch"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
