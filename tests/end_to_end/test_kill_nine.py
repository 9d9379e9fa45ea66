"""Each process is killed by kill -9 during ingest and during posting: the ledger equals that of a
run nobody disturbed.
"""

import subprocess
import sys
from collections import Counter

import psycopg

from fleetwatch.lib import env
from fleetwatch.lib.intervals import HOUR_MS
from tests.end_to_end.recorded_hours import ENTRIES, LOGS, RECEIVED, replaying, write_logs
from tests.stack.living import ROOT, Living

VICTIMS = ("fleetwatch.front", "--quiet worker", "valkey-server", "bin/postgres")


def query(stack: Living, statement: str, *values: object) -> list[tuple[object, ...]]:
    runtime = env.read_runtime(stack.data)
    assert runtime is not None
    with psycopg.connect(runtime.database_url) as connection:
        return connection.execute(statement, values).fetchall()


def received(stack: Living, node: str) -> int:
    """How many batches of the node were committed; the database may be down for a moment."""
    try:
        rows = query(stack, RECEIVED, node)
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
    assert replaying(stack.url, "calm", logs, calm).wait(120) == 0
    expected_batches = received(stack, "calm")

    for victim in VICTIMS:  # while batches come in: the agent dies too, and goes on where it was
        agent = replaying(stack.url, "storm", logs, storm)
        already = received(stack, "storm")
        stack.wait_until(
            lambda a=agent, n=already: received(stack, "storm") > n or a.poll() is not None,
            what="sending",
        )
        stack.kill(victim)
        agent.kill()
        agent.wait()
    stack.wait_until(lambda: stack.answers("/readyz"), what="ready again")
    assert replaying(stack.url, "storm", logs, storm).wait(120) == 0
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
