"""Whether the database answers: asked all the time, by a connection of its own, so that nobody has to find out by waiting."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import structlog
from django.db import connection
from psycopg.conninfo import make_conninfo

ASK_EVERY_S = 0.5
# A server under load answers SELECT 1 within milliseconds; one that is stopped or cut off never does.
LOST_AFTER_S = 3.0
CONNECT_TIMEOUT_S = 3

log = structlog.get_logger(__name__)


def conninfo() -> str:
    """How libpq reaches the database of the settings."""
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    return make_conninfo(**{name: parameters[name] for name in names if parameters.get(name)})


class Probe:
    """One connection, made again when it broke."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None

    def ask(self) -> None:
        """Returns when the database answered. Raises psycopg.Error."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S)
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            broken, self._connection = self._connection, None
            if broken is not None:
                broken.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()


class DatabaseWatch:
    """`is_away` while the database does not answer; `on_lost` is called each time that it stops to."""

    def __init__(self, ask: Callable[[], None], *, on_lost: Callable[[], None]) -> None:
        self.is_away = False
        self._ask = ask
        self._on_lost = on_lost
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="database-watch")

    def close(self) -> None:
        """The thread is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def watch_for_ever(self) -> None:
        """Asks, and asks again."""
        loop = asyncio.get_running_loop()
        while True:
            answer = loop.run_in_executor(self._thread, self._ask)
            await asyncio.wait({answer}, timeout=LOST_AFTER_S)
            if not answer.done():
                self._lost("no answer")
                await asyncio.wait({answer})
            error = answer.exception()
            if error is None:
                self._came_back()
            else:
                self._lost(type(error).__name__)
            await asyncio.sleep(ASK_EVERY_S)

    def _lost(self, reason: str) -> None:
        if not self.is_away:
            log.warning("database lost", reason=reason)
        self.is_away = True
        self._on_lost()

    def _came_back(self) -> None:
        if self.is_away:
            log.info("database is back")
        self.is_away = False
