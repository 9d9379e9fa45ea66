"""The hub's servers for a bench: an embedded Postgres with fsync on, Redis, and the web server as
`manage.py up` starts it.
"""

import http.client
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import django

from benchmarks import cpu
from benchmarks.tables import BenchError
from fleetwatch.stack import plan
from tests.servers import Servers
from tests.stack.living import free_port

# as `manage.py up` starts it; fsync stays on: an answer follows a durable commit
DURABLE = (*plan.POSTGRES_SETTINGS, "log_min_messages=fatal")
START_S = 30


@dataclass(frozen=True, slots=True)
class Hub:
    """What runs; `web` and `port` are None without a web server."""

    postgres_pid: int
    web: "subprocess.Popen[bytes] | None"
    port: int | None

    def postgres_s(self) -> float:
        """CPU seconds of Postgres so far, all its processes."""
        return cpu.seconds(cpu.family(self.postgres_pid))

    def web_s(self) -> float:
        """CPU seconds of the web server so far; 0 without one."""
        return cpu.seconds(cpu.family(self.web.pid)) if self.web else 0.0

    def cost(self, work: Callable[[], object]) -> tuple[float, float]:
        """CPU seconds that the work takes of this process, and of Postgres."""
        # to look for Postgres' processes takes some 10 ms of this one: outside of what is measured
        postgres_s = self.postgres_s()
        python_s = time.process_time()
        work()
        spent_s = time.process_time() - python_s
        return spent_s, self.postgres_s() - postgres_s

    def server_s(self) -> float:
        """CPU seconds of Postgres, the web server and this process, which does the workers'
        work.
        """
        return self.postgres_s() + self.web_s() + time.process_time()


@contextmanager
def running_hub(*, with_web: bool = False) -> Iterator[Hub]:
    """A migrated hub on folders and ports of its own, Django set up for this process; stopped and
    removed at the end.
    """
    servers = Servers(DURABLE)
    web: subprocess.Popen[bytes] | None = None
    try:
        django.setup()
        from django.core.management import call_command
        from django.db import connection

        call_command("migrate", verbosity=0)
        port = free_port() if with_web else None
        if port is not None:
            call_command("collectstatic", interactive=False, verbosity=0)
            web = _started_web(port)
        yield Hub(servers.postgres.pid, web, port)
        connection.close()
        connection.close_pool()
    finally:
        if web is not None:
            web.terminate()
            web.wait(10)
        servers.stop()


def _started_web(port: int) -> "subprocess.Popen[bytes]":
    """The web server as `manage.py up` starts it."""
    spec = plan.web(dict(os.environ), plan.Listen("127.0.0.1", port))
    web = subprocess.Popen(
        spec.command, cwd=spec.folder, env=dict(spec.environment), stderr=subprocess.DEVNULL
    )
    wait_for(port, "/healthz")
    return web


def wait_for(port: int, path: str) -> None:
    """Returns when a GET there answers 200; raises BenchError after START_S."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise BenchError(f"nothing answers on port {port}{path} within {START_S} s")
