"""A pytest plugin: a real Postgres and a real Redis for the run, before Django's settings load."""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
import redis as redis_client

from fleetwatch.stack import postgres, redis

FAST = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=4GB",  # a checkpoint of a server that is thrown away saves nothing
    "checkpoint_timeout=1d",
    "autovacuum=off",  # nor does a vacuum, and plans do not change with its moment
    "max_connections=60",
    "log_min_messages=fatal",
)
# Of a process without servers of its own; Servers says where they are.
NOWHERE = {
    "DJANGO_SETTINGS_MODULE": "fleetwatch.settings",
    "SECRET_KEY": "tests-only",
    "DATABASE_URL": "postgresql://nobody@/none?host=/nowhere",
}


class Servers:
    """Started once per run on folders of its own; stopped and removed at the end."""

    def __init__(self, settings: tuple[str, ...] = FAST) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fleetwatch-tests-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        server = postgres.prepare(self.folder)
        self.log = open(self.folder / "postgres.log", "wb")  # noqa: SIM115 - closed in stop
        self.postgres = subprocess.Popen(
            server.command(*settings),
            stdout=self.log,
            stderr=self.log,
            env=postgres.clean_environment(),
            cwd="/",
            **server.owner.keywords(),
        )
        postgres.wait_until_ready(server, self.postgres)
        postgres.ensure_database(server)
        socket = self.folder / "redis.sock"
        self.redis = subprocess.Popen(redis.command(socket), stdout=self.log, stderr=self.log)
        redis_client.Redis(unix_socket_path=str(socket), retry=_patient()).ping()
        static = self.folder / "static"  # an empty one: WhiteNoise warns where there is none
        static.mkdir()
        os.environ.update(
            NOWHERE
            | {
                "DATABASE_URL": server.url,
                "REDIS_URL": redis.url(socket),
                "FLEETWATCH_STATIC_ROOT": str(static),
            }
        )
        self.where = [server.folder, server.sockets]

    def stop(self) -> None:
        self.redis.terminate()
        self.postgres.send_signal(2)
        self.redis.wait(10)
        self.postgres.wait(30)
        self.log.close()
        for folder in (*self.where, self.folder):
            shutil.rmtree(folder, ignore_errors=True)


def _patient() -> "redis_client.retry.Retry":
    from redis.backoff import ConstantBackoff

    return redis_client.retry.Retry(ConstantBackoff(0.1), 100)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Around pytest-django's own: the settings stand before any folder's conftest imports models."""
    os.environ.update(NOWHERE)
    # some sixty Python processes are started: compiled once, whatever the shell says
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not hands_tests_out(early_config):
        gc.disable()  # until all is collected: what ten thousand tests are made of stays
        servers = Servers()
        early_config.add_cleanup(servers.stop)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`: one more than there are cores, for a tenth of the time tests wait for other
    processes, and the living stack's for half of theirs.
    """
    return len(os.sched_getaffinity(0)) + 1


def hands_tests_out(config: pytest.Config) -> bool:
    """Under xdist, of the first process: it runs no test, and each worker has its own servers."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return bool(config.known_args_namespace.numprocesses) and not is_worker
