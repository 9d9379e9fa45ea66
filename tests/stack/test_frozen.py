"""A database that is stopped: everybody hears so within seconds, and all goes on when it
goes on.
"""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from tests.stack.living import Living

SAID_WITHIN_S = 8  # 5 s are promised


@contextmanager
def stopped(stack: Living):
    """All processes of the embedded Postgres stand still, each of which has a process group of its
    own.
    """
    server = stack.children("bin/postgres")[0]
    processes = [server, *children_of(server)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def children_of(parent: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ]


def asked(
    stack: Living, path: str, *, token: str | None = None, body: bytes | None = None
) -> tuple[int, str, float]:
    """Status, body and seconds of the answer."""
    began = time.monotonic()
    headers = (
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"} if token else {}
    )
    request = urllib.request.Request(stack.url + path, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=SAID_WITHIN_S) as response:
            return response.status, response.read().decode(), time.monotonic() - began
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), time.monotonic() - began


def test_a_frozen_postgres_is_told_to_agents_people_and_machines_and_passes(stack: Living):
    token = stack.manage("create_agent_token", "frozen").stdout.strip()
    with stopped(stack):
        api = asked(stack, "/api/v1/jobs", token="fw_any")
        batch = asked(stack, "/api/v1/batches", token=token, body=b"{}")
        ready = asked(stack, "/readyz")
        health = asked(stack, "/healthz")
        overview = asked(stack, "/")

    assert [answer[0] for answer in (api, batch, ready, overview)] == [503] * 4
    assert "The database is not available" in overview[1]
    assert json.loads(batch[1]) == {"error": "the database is not available", "field": None}
    assert json.loads(ready[1]) == {
        "ready": False,
        "missing": ["database", "worker"],
        "reason": "the database is not available",
    }
    assert health[0] == 200
    stack.wait_until(lambda: stack.answers("/readyz"), what="ready again")
    assert asked(stack, "/api/v1/batches", token=token, body=b"{}")[0] == 422
