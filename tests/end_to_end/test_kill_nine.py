"""Each process is killed by kill -9 during ingest and during posting: the ledger equals that of a
run nobody disturbed.
"""

import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from fleetwatch.lib import env
from fleetwatch.lib.intervals import HOUR_MS
from tests.stack.living import ROOT, Living

LOGS = 12
START = datetime(2026, 11, 3, tzinfo=UTC)
VICTIMS = ("fleetwatch.front", "--quiet worker", "valkey-server", "bin/postgres")
ENTRIES = """
    SELECT gpu.model_name, entry.start, job.key, entry.state, entry.kind, entry.reason, entry.signal, entry.tier, entry.gpu_ms,
           round(entry.energy_j::numeric, 3)
    FROM ledger_entry entry
    JOIN inventory_gpu gpu ON gpu.id = entry.gpu_id
    JOIN inventory_node node ON node.id = gpu.node_id
    LEFT JOIN jobs_job job ON job.id = entry.job_id
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


def replaying(stack: Living, node: str, logs: list[Path], token: str) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "agent",
        "replay",
        *map(str, logs),
        "--server",
        stack.url,
        "--token",
        token,
        "--node",
        node,
    ]
    command += ["--job", "slurm/della/4711", "--user", "ann", "--kind", "batch"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def query(stack: Living, statement: str, *values: object) -> list[tuple[object, ...]]:
    runtime = env.read_runtime(stack.data)
    assert runtime is not None
    with psycopg.connect(runtime.database_url) as connection:
        return connection.execute(statement, values).fetchall()


def received(stack: Living, node: str) -> int:
    """How many batches of the node were committed; the database may be down for a moment."""
    try:
        rows = query(
            stack,
            "SELECT coalesce(sum(upper(part) - lower(part)), 0) FROM telemetry_receivedsequence"
            " received JOIN inventory_node node ON node.id = received.node_id,"
            " unnest(received.received) part WHERE node.name = %s",
            node,
        )
    except psycopg.OperationalError:
        return 0
    return int(rows[0][0])  # type: ignore[call-overload]


def settling(stack: Living) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "settle"],
        cwd=ROOT,
        env={**stack.environment, "PGAPPNAME": "settling"},
        stderr=subprocess.DEVNULL,
    )


def has_begun_to_write(stack: Living) -> bool:
    """Whether a `settle` of ours stands in a transaction that has written."""
    rows = query(
        stack,
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = 'settling' AND backend_xid IS NOT NULL",
    )
    return rows != [(0,)]


def test_kill_9_of_every_process_loses_nothing_and_doubles_nothing(stack: Living, tmp_path):
    logs = write_logs(tmp_path)
    calm, storm = (
        stack.manage("create_agent_token", node).stdout.strip() for node in ("calm", "storm")
    )
    assert replaying(stack, "calm", logs, calm).wait(120) == 0
    expected_batches = received(stack, "calm")

    for victim in VICTIMS:  # while batches come in: the agent dies too, and goes on where it was
        agent = replaying(stack, "storm", logs, storm)
        already = received(stack, "storm")
        stack.wait_until(
            lambda a=agent, n=already: received(stack, "storm") > n or a.poll() is not None,
            what="sending",
        )
        stack.kill(victim)
        agent.kill()
        agent.wait()
    stack.wait_until(lambda: stack.answers("/readyz"), what="ready again")
    assert replaying(stack, "storm", logs, storm).wait(120) == 0
    for victim in VICTIMS:  # while hours are posted
        posting = settling(stack)
        stack.wait_until(
            lambda p=posting: has_begun_to_write(stack) or p.poll() is not None, what="posting"
        )
        stack.kill(victim)
        posting.kill()
        posting.wait()
    stack.wait_until(lambda: stack.answers("/readyz"), what="ready again")

    settled = stack.manage("settle")
    checked = stack.manage("check_ledger")

    assert settled.returncode == 0, settled.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert received(stack, "storm") == expected_batches > LOGS - 1
    assert Counter(query(stack, ENTRIES, "storm")) == Counter(query(stack, ENTRIES, "calm"))
    ((gpu_ms,),) = query(
        stack,
        "SELECT sum(gpu_ms) FROM ledger_entry entry"
        " JOIN inventory_node node ON node.id = entry.node_id WHERE node.name = 'storm'",
    )
    # each log is a GPU of its own, there from its hour to the node's last
    assert gpu_ms == sum(range(1, LOGS + 1)) * HOUR_MS
