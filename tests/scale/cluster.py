"""A hub over several hosts, on one machine: each host is an address of 127.0.1.0/24 with processes
and folders of its own.

    haproxy .5  -> web .31 .32          people and agents come in
                -> Postgres .11 .12     which of the two is written to, Patroni says (etcd .1)
    PgBouncer .6 -> haproxy             transactions of all hosts share its connections
    Redis .41 .42, sentinels .51 .52 .53
    workers and beats of hosts .31 .32
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg

from fleetwatch.stack import postgres
from tests.scale.parts import Part, listens, wait_until
from tests.scale.prepare import FOLDER as PATRONI
from tests.stack.living import ROOT

NET = "127.0.1."
BALANCER, POOLER, ETCD = f"{NET}5", f"{NET}6", f"{NET}1"
DATABASES, WEB = (f"{NET}11", f"{NET}12"), (f"{NET}31", f"{NET}32")
REDIS, SENTINELS = (f"{NET}41", f"{NET}42"), (f"{NET}51", f"{NET}52", f"{NET}53")
SECRET = "of-a-test-and-of-nothing-else-0123456789"
URL = f"http://{BALANCER}:8000"

HAPROXY = """
global
  maxconn 2000
defaults
  mode tcp
  timeout connect 2s
  # longer than any migration: who holds a lock meanwhile says nothing
  timeout client 30m
  timeout server 30m
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
listen primary
  bind {balancer}:5432
  option httpchk GET /primary
{databases}
listen replica
  bind {balancer}:5433
  option httpchk GET /replica
{databases}
listen web
  bind {balancer}:8000
  mode http
  option httpchk GET /healthz
  http-check send hdr Host {balancer}
  option forwardfor
  option redispatch
  retry-on conn-failure
{web}
"""
PGBOUNCER = """
[databases]
fleetwatch = host={balancer} port=5432
fleetwatch_web = host={balancer} port=5432 dbname=fleetwatch connect_query='SET jit = off; SET statement_timeout = 30000; SET lock_timeout = 5000'
[pgbouncer]
listen_addr = {pooler}
listen_port = 6432
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users.txt
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
server_login_retry = 1
server_check_delay = 5
"""
SENTINEL = """
port 26379
bind {address}
sentinel announce-ip {address}
dir {folder}
sentinel monitor fleetwatch {redis} 6379 2
sentinel auth-pass fleetwatch {secret}
sentinel down-after-milliseconds fleetwatch 2000
sentinel failover-timeout fleetwatch 5000
"""


class Cluster:
    """All of it; `parts` by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, Part] = {}
        self.owner = postgres.owner()
        self.binaries = postgres.prepare(_made(folder / "wheel")).binaries

    def start(self) -> None:
        """Returns once pages are served and workers live."""
        self._start_databases()
        self._start_redis()
        for host in WEB:
            for kind in ("web", "worker", "beat"):
                self._add(self._hub_part(kind, host))
        # both hosts prepare the database at once
        with ThreadPoolExecutor() as pool:
            for done in pool.map(lambda host: self.manage("initialise", host=host), WEB):
                assert done.returncode == 0, done.stderr
        for name, part in self.parts.items():
            if name.startswith(("web", "worker", "beat")):
                part.start()
        wait_until(lambda: self.answers("/readyz"), "ready")

    def stop(self) -> None:
        for part in reversed(list(self.parts.values())):
            if part.process is not None and part.process.poll() is None:
                part.kill()

    def manage(self, *arguments: str, host: str = WEB[0]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **self.hub_environment(host)},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def query(self, statement: str, *values: object, port: int = 5432) -> list[tuple[object, ...]]:
        with psycopg.connect(
            host=BALANCER, port=port, dbname="fleetwatch", user="fleetwatch", password=SECRET
        ) as connection:
            return connection.execute(statement, values).fetchall()  # type: ignore[arg-type]

    def answers(self, path: str) -> bool:
        return self.get(path)[0] == 200

    def get(self, path: str, *, token: str = "") -> tuple[int, str]:
        """Status and text of what the balancer answers; 0 where nobody does."""
        request = urllib.request.Request(URL + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def primary(self) -> Part:
        """The Postgres that is written to, as Patroni knows it."""
        for number, address in enumerate(DATABASES):
            if _status(f"http://{address}:8008/primary") == 200:
                return self.parts[f"postgres{number}"]
        raise AssertionError("no primary")

    def redis_master(self) -> Part:
        """The Redis that is written to, as a sentinel knows it."""
        said = subprocess.run(
            ["redis-cli", "-h", SENTINELS[0], "-p", "26379", "sentinel",
             "get-master-addr-by-name", "fleetwatch"],
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        return self.parts[f"redis{REDIS.index(said[0])}"]

    def replica_is_there(self) -> bool:
        return any(_status(f"http://{address}:8008/replica") == 200 for address in DATABASES)

    def hub_environment(self, host: str, database: str = "fleetwatch") -> dict[str, str]:
        sentinels = ",".join(f"{address}:26379" for address in SENTINELS)
        return {
            "DATABASE_URL": f"postgresql://fleetwatch:{SECRET}@{POOLER}:6432/{database}",
            "FLEETWATCH_DB_BEHIND_POOLER": "true",
            "FLEETWATCH_REPLICA_URL": f"postgresql://fleetwatch:{SECRET}@{BALANCER}:5433/fleetwatch",
            "REDIS_URL": f"sentinel://:{SECRET}@{sentinels}/0?master=fleetwatch",
            "SECRET_KEY": SECRET,
            "ALLOWED_HOSTS": BALANCER,
            "FLEETWATCH_TRUSTED_PROXIES": "1",
            "FLEETWATCH_PUBLIC_URL": URL,
            "FLEETWATCH_DATA": str(self.folder / host),
            "FLEETWATCH_STATIC_ROOT": str(self.folder / host / "static"),
            "FLEETWATCH_ADMIN_PASSWORD": SECRET,
        }

    def _start_databases(self) -> None:
        self._add(self._etcd()).start()
        wait_until(lambda: listens(ETCD, 2379), "etcd")
        for number, address in enumerate(DATABASES):
            self._add(self._patroni(number, address)).start()
            wait_until(self._has_primary, "a primary")
        self._add(self._haproxy()).start()
        wait_until(lambda: listens(BALANCER, 5432) and self._has_been_asked(), "a way to it")
        self._make_database()
        wait_until(self.replica_is_there, "a replica")
        self._add(self._pgbouncer()).start()
        wait_until(lambda: listens(POOLER, 6432), "PgBouncer")

    def _start_redis(self) -> None:
        for number, address in enumerate(REDIS):
            self._add(self._redis(number, address)).start()
            wait_until(lambda at=address: listens(at, 6379), "Redis")
        for number, address in enumerate(SENTINELS):
            self._add(self._sentinel(number, address)).start()
            wait_until(lambda at=address: listens(at, 26379), "a sentinel")

    def _has_primary(self) -> bool:
        return any(_status(f"http://{address}:8008/primary") == 200 for address in DATABASES)

    def _has_been_asked(self) -> bool:
        try:
            self._as_superuser("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _make_database(self) -> None:
        self._as_superuser(f"CREATE ROLE fleetwatch LOGIN PASSWORD '{SECRET}'")
        self._as_superuser("CREATE DATABASE fleetwatch OWNER fleetwatch")

    def _as_superuser(self, statement: str) -> None:
        with psycopg.connect(
            host=BALANCER, port=5432, dbname="postgres", user="postgres", password=SECRET,
            autocommit=True,
        ) as connection:  # fmt: skip
            connection.execute(statement)  # type: ignore[arg-type]

    def _add(self, part: Part) -> Part:
        self.parts[part.name] = part
        return part

    def _own(self, folder: Path) -> Path:
        """A folder of the account that Postgres runs as."""
        os.chown(_made(folder), self.owner.uid, self.owner.gid)
        folder.chmod(0o700)
        return folder

    def _etcd(self) -> Part:
        folder = _made(self.folder / "etcd")
        client, peer = f"http://{ETCD}:2379", f"http://{ETCD}:2380"
        command = [
            "etcd", "--name", "etcd", "--data-dir", str(folder / "data"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"etcd={peer}",
        ]  # fmt: skip
        return Part("etcd", command, folder)

    def _patroni(self, number: int, address: str) -> Part:
        folder = self._own(self.folder / f"postgres{number}")
        settings = folder / "patroni.json"
        settings.write_text(json.dumps(self._patroni_settings(number, address, folder)))
        os.chown(settings, self.owner.uid, self.owner.gid)
        return Part(
            f"postgres{number}",
            [str(PATRONI / "bin" / "patroni"), str(settings)],
            folder,
            environment={"HOME": str(folder), "LC_ALL": "C.UTF-8"},
            keywords=self.owner.keywords(),
            kills=[folder / "data" / "postmaster.pid"],
        )

    def _patroni_settings(self, number: int, address: str, folder: Path) -> dict[str, object]:
        return {
            "scope": "fleetwatch",
            "name": f"postgres{number}",
            "restapi": {"listen": f"{address}:8008", "connect_address": f"{address}:8008"},
            "etcd3": {"hosts": f"{ETCD}:2379"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20, "loop_wait": 2, "retry_timeout": 5,
                    # a commit is on both before it is one: what was acknowledged outlives a host
                    "synchronous_mode": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {
                            "max_connections": 100,
                            # pages that read the replica are not cancelled by what is vacuumed
                            "hot_standby_feedback": "on",
                            "max_standby_streaming_delay": "60s",
                        },
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
            },
            "postgresql": {
                "listen": f"{address}:5432",
                "connect_address": f"{address}:5432",
                "data_dir": str(folder / "data"),
                "bin_dir": str(self.binaries),
                "pgpass": str(folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": SECRET},
                    "replication": {"username": "replicator", "password": SECRET},
                    "rewind": {"username": "rewinder", "password": SECRET},
                },
                "parameters": {"unix_socket_directories": str(folder)},
                "pg_hba": [
                    "local all all trust",
                    f"host all all {NET}0/24 scram-sha-256",
                    "host all all 127.0.0.0/8 scram-sha-256",
                    "host replication replicator 127.0.0.0/8 scram-sha-256",
                ],
            },
        }  # fmt: skip

    def _haproxy(self) -> Part:
        folder = _made(self.folder / "haproxy")
        databases = "\n".join(
            f"  server postgres{number} {address}:5432 check addr {address} port 8008"
            for number, address in enumerate(DATABASES)
        )
        web = "\n".join(f"  server web{n} {at}:8000 check" for n, at in enumerate(WEB))
        settings = folder / "haproxy.cfg"
        settings.write_text(HAPROXY.format(balancer=BALANCER, databases=databases, web=web))
        return Part("balancer", ["haproxy", "-db", "-f", str(settings)], folder)

    def _pgbouncer(self) -> Part:
        folder = self._own(self.folder / "pgbouncer")
        (folder / "users.txt").write_text(f'"fleetwatch" "{SECRET}"\n')
        settings = folder / "pgbouncer.ini"
        settings.write_text(PGBOUNCER.format(balancer=BALANCER, pooler=POOLER, folder=folder))
        for path in (folder / "users.txt", settings):
            os.chown(path, self.owner.uid, self.owner.gid)
        command = ["pgbouncer", str(settings)]
        return Part("pgbouncer", command, folder, keywords=self.owner.keywords())

    def _redis(self, number: int, address: str) -> Part:
        folder = _made(self.folder / f"redis{number}")
        command = [
            "redis-server", "--bind", address, "--port", "6379", "--save", "", "--dir",
            str(folder), "--replica-announce-ip", address, "--requirepass", SECRET, "--masterauth", SECRET,
        ]  # fmt: skip
        if number:
            command += ["--replicaof", f"{REDIS[0]} 6379"]
        return Part(f"redis{number}", command, folder)

    def _sentinel(self, number: int, address: str) -> Part:
        folder = _made(self.folder / f"sentinel{number}")
        settings = folder / "sentinel.conf"
        settings.write_text(
            SENTINEL.format(address=address, folder=folder, redis=REDIS[0], secret=SECRET)
        )
        return Part(f"sentinel{number}", ["redis-sentinel", str(settings)], folder)

    def _hub_part(self, kind: str, host: str) -> Part:
        folder = _made(self.folder / host)
        celery = [sys.executable, "-m", "celery", "-A", "fleetwatch", "--quiet"]
        quiet = ["--loglevel", "warning"]
        commands = {
            "web": [sys.executable, "-m", "fleetwatch.front", "--host", host, "--port", "8000",
                    "--workers", "1"],
            "worker": [*celery, "worker", *quiet, "--concurrency", "1", "--without-gossip",
                       "--without-mingle", "-n", f"worker@{host}"],
            "beat": [*celery, "beat", *quiet],
        }  # fmt: skip
        database = "fleetwatch_web" if kind == "web" else "fleetwatch"
        return Part(
            f"{kind}{WEB.index(host)}",
            commands[kind],
            folder,
            environment={**self.hub_environment(host, database), "PYTHONPATH": str(ROOT)},
        )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Stopped and removed at the end; of one that does not start the ends of its logs are printed."""
    folder = Path(tempfile.mkdtemp(prefix="fleetwatch-hosts-", dir="/var/tmp"))
    folder.chmod(0o755)
    cluster = Cluster(folder)
    try:
        _start(cluster)
        yield cluster
    finally:
        cluster.stop()
        shutil.copytree(
            folder,
            "/tmp/scale-logs",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("data", "static", "wheel", ".s.*"),
        )
        shutil.rmtree(folder, ignore_errors=True)


def _start(cluster: Cluster) -> None:
    try:
        cluster.start()
    except BaseException:
        for part in cluster.parts.values():
            if part.process is not None:
                print(f"--- {part.name}\n{part.log[-2000:]}")  # noqa: T201
        raise
