"""Database nodes with Citus on one machine: a coordinator and two workers, each a Postgres with a
folder and a socket of its own, for as long as a run of tests.
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

from fleetwatch.stack import postgres
from tests.citus.prepare import LIBRARIES, POSTGRES

NODES = 3
SETTINGS = (
    "shared_preload_libraries=citus",
    "max_prepared_transactions=100",  # a commit on several nodes is a commit on each
    "max_connections=100",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "autovacuum=off",
    "log_min_messages=fatal",
    "citus.shard_count=4",
    "citus.enable_statistics_collection=off",
)


@dataclass(frozen=True, slots=True)
class DatabaseNode:
    server: postgres.Postgres
    process: "subprocess.Popen[bytes]"

    def connect(self, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host=str(self.server.sockets), user=postgres.USER, dbname=database, autocommit=True
        )


class Cluster:
    """The first of its nodes is the coordinator."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fleetwatch-citus-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.nodes = [_start(self.folder / f"node{number}") for number in range(NODES)]
        for node in self.nodes:
            postgres.wait_until_ready(node.server, node.process)

    @property
    def url(self) -> str:
        """Of the coordinator."""
        return self.nodes[0].server.url

    def url_of(self, database: str) -> str:
        """Of another database of the cluster than that."""
        return self.url.replace(f"@/{postgres.USER}?", f"@/{database}?")

    def make(self, database: str) -> None:
        """Makes the database anew on each node, and one cluster of them."""
        for node in self.nodes:
            with node.connect("postgres") as connection:
                name = sql.Identifier(database)
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} (FORCE)").format(name))
                connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        self.join(database)

    def join(self, database: str) -> None:
        """One cluster of the databases of that name, which are there."""
        for node in self.nodes:
            with node.connect(database) as connection:
                connection.execute("CREATE EXTENSION citus")
        coordinator, *workers = (str(node.server.sockets) for node in self.nodes)
        with self.nodes[0].connect(database) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, 5432)", [coordinator])
            for worker in workers:
                connection.execute("SELECT citus_add_node(%s, 5432)", [worker])

    def stop(self) -> None:
        for node in self.nodes:
            node.process.send_signal(2)
        for node in self.nodes:
            node.process.wait(30)
            shutil.rmtree(node.server.folder, ignore_errors=True)
            shutil.rmtree(node.server.sockets, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _start(folder: Path) -> DatabaseNode:
    folder.mkdir()
    server = replace(postgres.prepare(folder), binaries=POSTGRES / "bin")
    # its socket lies in a folder that nobody else may enter
    (server.folder / "pg_hba.conf").write_text("local all all trust\n")
    process = subprocess.Popen(
        server.command(*SETTINGS),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**postgres.clean_environment(), "LD_LIBRARY_PATH": str(LIBRARIES)},
        cwd="/",
        **server.owner.keywords(),
    )
    return DatabaseNode(server, process)
