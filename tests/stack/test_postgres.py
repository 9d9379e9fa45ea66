import os
import shutil
import subprocess

import psycopg
import pytest

from fleetwatch.stack import postgres
from fleetwatch.stack.folder import StackError


@pytest.fixture
def prepared(tmp_path):
    """A database in a folder that only its owner may enter, as mktemp -d makes it."""
    tmp_path.chmod(0o700)
    server = postgres.prepare(tmp_path)
    yield server
    for folder in (server.folder, server.sockets):
        shutil.rmtree(folder)


def test_postgres_runs_in_a_folder_that_only_its_owner_may_enter(prepared, tmp_path):
    server = prepared
    process = subprocess.Popen(
        server.command("fsync=off"),
        env=postgres.clean_environment(),
        cwd="/",
        stderr=subprocess.DEVNULL,
        **server.owner.keywords(),
    )
    try:
        postgres.wait_until_ready(server, process)
        postgres.ensure_database(server)
        with psycopg.connect(server.url) as connection:
            name = connection.execute("SELECT current_database()").fetchone()
        with pytest.raises(
            psycopg.OperationalError, match="password authentication failed|no password"
        ):
            psycopg.connect(server.url.replace(server.password, "wrong"))
    finally:
        process.send_signal(2)
        process.wait(20)

    assert name == ("fleetwatch",)
    assert os.stat(tmp_path).st_mode & 0o777 == 0o700


def test_a_database_of_another_postgres_version_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("17\n")

    with pytest.raises(
        StackError, match="holds a Postgres 17 database, this version runs 18: back it up"
    ):
        postgres.prepare(tmp_path)


def test_a_server_that_dies_while_starting_is_said_at_once(prepared):
    process = subprocess.Popen(["/bin/false"])
    process.wait()

    with pytest.raises(StackError, match="stopped while starting"):
        postgres.wait_until_ready(prepared, process, timeout_s=5)
