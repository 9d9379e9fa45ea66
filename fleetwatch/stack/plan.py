"""Which processes a FleetWatch stack is made of, and how each is started and stopped."""

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetwatch.lib.env import integer
from fleetwatch.stack import postgres, redis
from fleetwatch.stack.processes import Spec

ROOT = Path(__file__).resolve().parent.parent.parent
# Who stops before whom: agents flush into a living web server, the databases go last.
SENDERS, HUB, BROKER, DATABASE = range(4)
POSTGRES_SETTINGS = (
    "shared_buffers=256MB",
    "max_connections=80",
    "wal_compression=pglz",
    "log_min_messages=warning",
    "log_checkpoints=off",
    "work_mem=32MB",  # a month of a large fleet is grouped in memory
)


# Of the web process (settings.py); as in deploy/web.sh.
STATEMENT_S = "30"


# The write-ahead log's: a sixteenth of the disk, so that on a small one it does not take what data
# needs.
WAL_SHARE = 16
LEAST_WAL_MIB = 64
MOST_WAL_MIB = 2048


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the web server listens."""

    host: str
    port: int

    @property
    def local_url(self) -> str:
        """The address by which this machine reaches it."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def environment(data: Path, *, public_url: str, extra: Mapping[str, str]) -> dict[str, str]:
    """What every Python child gets: the data folder tells it the rest (runtime.json)."""
    return {
        **os.environ,
        "FLEETWATCH_DATA": str(data),
        "FLEETWATCH_PUBLIC_URL": public_url,
        "FLEETWATCH_STATIC_ROOT": str(data / "static"),
        "PYTHONUNBUFFERED": "1",
        **extra,
    }


def database(server: postgres.Postgres) -> Spec:
    """The embedded Postgres. SIGINT is its fast shutdown; SIGTERM would wait for every client."""
    wal = wal_settings(shutil.disk_usage(server.folder).total)
    return Spec(
        "postgres", tuple(server.command(*POSTGRES_SETTINGS, *wal)), postgres.clean_environment(),
        stop_signal=signal.SIGINT, stop_s=3.0, stage=DATABASE,
        start_keywords=server.owner.keywords(),
    )  # fmt: skip


def wal_settings(disk_bytes: int) -> tuple[str, str]:
    """How large the write-ahead log may become on a disk of that size."""
    most = max(LEAST_WAL_MIB, min(MOST_WAL_MIB, disk_bytes // 1024**2 // WAL_SHARE))
    return f"max_wal_size={most}MB", f"min_wal_size={min(80, most // 2)}MB"


def broker(socket: Path) -> Spec:
    """The embedded Redis."""
    return Spec(
        "redis", tuple(redis.command(socket)), {"PATH": os.defpath}, stop_s=1.0, stage=BROKER
    )


def web(env: Mapping[str, str], listen: Listen) -> Spec:
    """The web server (fleetwatch/front)."""
    workers = integer("FLEETWATCH_WEB_WORKERS", 1, low=1, high=64)
    where = ("--host", listen.host, "--port", str(listen.port))
    command = (sys.executable, "-m", "fleetwatch.front", *where, "--workers", str(workers))
    return Spec("web", command, {"FLEETWATCH_DB_STATEMENT_S": STATEMENT_S, **env}, folder=ROOT)


def worker(env: Mapping[str, str]) -> Spec:
    """The Celery worker; what it does not finish in time is done by the next start."""
    processes = str(integer("FLEETWATCH_WORKERS", 2, low=1, high=64))
    command = _celery("worker", "--concurrency", processes, "--without-gossip", "--without-mingle")
    return Spec("worker", command, {**env, "FLEETWATCH_DB_POOL": "2"}, folder=ROOT)


def beat(env: Mapping[str, str]) -> Spec:
    """The clock: puts tasks on the queue by the one schedule in celery.py."""
    return Spec("beat", _celery("beat"), env, folder=ROOT)


def _celery(name: str, *options: str) -> tuple[str, ...]:
    celery = (sys.executable, "-m", "celery", "-A", "fleetwatch", "--quiet", name)
    return (*celery, "--loglevel", "warning", *options)


def agent(env: Mapping[str, str], facts: Mapping[str, str], *, server: str, spool: Path) -> Spec:
    """An agent beside the hub, this host's own or one of the simulated fleet; `facts` as initialise
    answers them.
    """
    command = (
        sys.executable,
        "-m",
        "agent",
        "run",
        "--server",
        server,
        "--node",
        facts["node"],
        "--source",
        facts["source"],
    )
    own = {
        "FLEETWATCH_TOKEN_FILE": facts["token_file"],
        "FLEETWATCH_LABELS": facts["labels"],
        "FLEETWATCH_SPOOL": str(spool),
    }
    return Spec(
        f"agent {facts['node']}", command, {**env, **own}, stop_s=2.0, stage=SENDERS, folder=ROOT
    )


def manage(env: Mapping[str, str], name: str, *arguments: str) -> Spec:
    """A management command that runs once beside the others."""
    return Spec(
        name,
        (sys.executable, str(ROOT / "manage.py"), *arguments),
        env,
        stop_s=2.0,
        stage=SENDERS,
        once=True,
        folder=ROOT,
    )
