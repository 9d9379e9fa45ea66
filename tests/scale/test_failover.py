"""A hub over several hosts whose servers are killed one after the other while batches come in and
are posted: each acknowledged batch is there, and the ledger is that of a node nobody disturbed.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from tests.end_to_end.recorded_hours import ENTRIES, LOGS, RECEIVED, replaying, write_logs
from tests.scale.cluster import URL, WEB, Cluster, running_cluster
from tests.scale.parts import Part, wait_until
from tests.stack.living import ROOT

READ = "SELECT sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) FROM pg_stat_user_tables WHERE relname = 'costs_fleetday'"
BEGUN = "SELECT count(*) FROM operations_jobrun WHERE started_at > %s AND name <> 'settle'"
SENDING_S = 240


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> list[Path]:
    return write_logs(tmp_path_factory.mktemp("logs"))


def token_of(cluster: Cluster, node: str) -> str:
    return cluster.manage("create_agent_token", node).stdout.strip()


def received(cluster: Cluster, node: str) -> int:
    """How many batches of the node are committed; 0 while no primary answers."""
    try:
        [[count]] = cluster.query(RECEIVED, node)
    except psycopg.OperationalError:
        return 0
    return int(count)  # type: ignore[call-overload]


def settling(cluster: Cluster) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "manage.py", "settle"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **cluster.hub_environment(WEB[0])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def back_after(cluster: Cluster, victim: Part) -> float:
    """Kills it; seconds until pages are served by a hub that is whole, its own start included."""
    began = time.monotonic()
    victim.kill()
    killed_at = datetime.now(UTC)
    if victim.name in ("balancer", "pgbouncer"):  # one each: a supervisor starts it again
        victim.start()
    wait_until(lambda: cluster.answers("/readyz"), f"ready after {victim.name} is gone")
    if victim.name == "beat0":
        wait_until(lambda: is_asked_for(cluster, killed_at), "work that another beat asks for")
    return time.monotonic() - began


def is_asked_for(cluster: Cluster, since: datetime) -> bool:
    """Whether a task began that beats ask for: none of them starts another one."""
    [[count]] = cluster.query(BEGUN, since)
    return bool(count)


def victims(cluster: Cluster) -> list[Part]:
    parts = cluster.parts
    return [
        parts["web0"],
        parts["worker0"],
        parts["beat0"],
        cluster.redis_master(),
        parts["balancer"],
        parts["pgbouncer"],
        cluster.primary(),
    ]


def test_what_is_acknowledged_outlives_the_kill_of_any_host(cluster, logs):
    calm, storm = (token_of(cluster, node) for node in ("calm", "storm"))
    assert replaying(URL, "calm", logs, calm).wait(SENDING_S) == 0
    expected_batches = received(cluster, "calm")
    table = {}

    several = victims(cluster)

    for number, victim in enumerate(several):
        first, last = (len(logs) * at // len(several) for at in (number, number + 1))
        agent = replaying(URL, "storm", logs[first:last], storm)
        posting = settling(cluster)
        table[victim.name] = back_after(cluster, victim)
        assert agent.wait(SENDING_S) == 0, f"not sent after {victim.name} was killed"
        posting.wait(SENDING_S)
        if victim.process is None or victim.process.poll() is not None:
            victim.start()
        wait_until(cluster.replica_is_there, "a replica again")

    settled = cluster.manage("settle")
    checked = cluster.manage("check_ledger")
    print("\nkilled     seconds until the hub was whole")  # noqa: T201
    print("\n".join(f"{name:10} {seconds:5.1f}" for name, seconds in table.items()))  # noqa: T201

    assert settled.returncode == 0, settled.stderr
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert received(cluster, "storm") == expected_batches > LOGS - 1
    assert Counter(cluster.query(ENTRIES, "storm")) == Counter(cluster.query(ENTRIES, "calm"))


def test_pages_are_read_from_the_replica_and_say_how_far_it_is_behind(cluster):
    token = cluster.manage("create_api_token", "admin", "--name", "test").stdout.strip()
    wait_until(cluster.replica_is_there, "a replica")
    [[before]] = cluster.query(READ, port=5433)

    def is_read() -> bool:
        status, _ = cluster.get("/api/v1/fleet/summary?from=2026-11-01&to=2026-11-05", token=token)
        assert status == 200
        [[after]] = cluster.query(READ, port=5433)
        return after > before  # type: ignore[operator]

    wait_until(is_read, "read from the replica")
    _, metrics = cluster.get("/metrics", token=token)
    [line] = [each for each in metrics.splitlines() if each.startswith("fleetwatch_replica_behind")]
    assert float(line.split()[1]) < 60
