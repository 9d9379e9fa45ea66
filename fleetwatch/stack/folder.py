"""The data folder: made, locked for one instance, and checked for its version."""

import fcntl
import os
import secrets
import socket
from pathlib import Path
from typing import IO

from fleetwatch.lib.env import folder_trouble

VERSION = "1"


class StackError(Exception):
    """The embedded stack can't start; the text says what and what to do."""


def claim(data: Path) -> IO[str]:
    """The folder's lock, held until it is closed.

    Raises StackError when the folder can't be written, another instance holds it, or
    its content is of another version.
    """
    try:
        data.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = (data / "lock").open("a")
    except OSError as error:
        trouble = folder_trouble(data, error)
        raise StackError(
            f"no data folder at {data}: {trouble}; FLEETWATCH_DATA or --data names another"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StackError(
            f"FleetWatch already runs on {data}; stop it, or choose another folder with"
            " FLEETWATCH_DATA or --data"
        ) from None
    _check_version(data)
    return lock


def _check_version(data: Path) -> None:
    path = data / "VERSION"
    if not path.exists():
        path.write_text(f"{VERSION}\n")
    version = path.read_text().strip()
    if version != VERSION:
        raise StackError(
            f"{data} has data of version {version!r}, this FleetWatch needs {VERSION!r}: see"
            " Upgrading in the README"
        )


def check_port(host: str, port: int) -> None:
    """Raises StackError when the web server could not listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StackError(
                f"port {port} on {host} can't be used ({error.strerror}); choose another with PORT="
                " or --port"
            ) from error


def secret(path: Path) -> str:
    """The secret kept in `path`, mode 0600; made on first use."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(48))
    return path.read_text(encoding="ascii").strip()


def write_private(path: Path, text: str) -> None:
    """Writes a file of mode 0600, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    with new_private(partial) as file:
        file.write(text.encode())
    partial.replace(path)


def new_private(path: Path) -> IO[bytes]:
    """A new file that only its owner may read, from its first byte on; what a killed run left there
    goes.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
