"""Pages read from a streaming replica of the database, where there is one
(FLEETWATCH_REPLICA_URL) and it has what its reader has written.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, HttpResponse
from psycopg_pool import PoolTimeout

from fleetwatch.lib.memo import LOOKS

REPLICA = "replica"
# How old what it shows may be. Workers write a heartbeat each 10 s, so of a replica that keeps up
# the newest is up to that old.
MAX_AGE_S = 45
# After it did not answer: nobody waits for it again for so long.
LEFT_ALONE_S = 10
# How far a browser's own changes had got, in bytes of the log; for as long as a replica may be
# behind.
COOKIE = "written_until"
POSITION = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")
NOTHING_WRITTEN = "0/0"
# One row: whether it has all up to a position, and has heard of the primary lately.
IS_CURRENT = """
SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn AND max(at) > now() - make_interval(secs => %s)
FROM operations_heartbeat
"""

Respond = Callable[[HttpRequest], HttpResponse]

log = structlog.get_logger(__name__)

# Up to which position a reader's page has to know the database; None: what is read is no page.
_needed: ContextVar[str | None] = ContextVar("needed", default=None)
_alias: ContextVar[str] = ContextVar("alias", default=DEFAULT_DB_ALIAS)
_asked_again_at = [0.0]  # by time.monotonic, of this process


def reading() -> BaseDatabaseWrapper:
    """The connection that what is read now is read from."""
    return connections[_alias.get()]


@contextmanager
def viewing() -> Iterator[str]:
    """The alias of the database that is read from within: the replica's, for a page, where the
    replica is current enough.
    """
    token = _alias.set(_current_alias())
    try:
        yield _alias.get()
    finally:
        _alias.reset(token)


def behind_s() -> float | None:
    """Seconds between the newest heartbeat here and the replica's; None where it does not answer,
    or there is none.
    """
    if not has_replica():
        return None
    here = _newest_heartbeat(DEFAULT_DB_ALIAS)
    there = _newest_heartbeat(REPLICA)
    return None if here is None or there is None else max(0.0, here - there)


def has_replica() -> bool:
    """Whether this hub was told of one."""
    return REPLICA in settings.DATABASES


def know_own_writes(respond: Respond) -> Respond:
    """Who looks at a page after changing something sees what he changed: the replica is asked only
    once it has it.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        if not has_replica():
            return respond(request)
        if request.method not in LOOKS:
            response = respond(request)
            if settings.SESSION_COOKIE_NAME in request.COOKIES:  # agents and programs look nowhere
                _keep_position(response)
            return response
        token = _needed.set(_needed_by(request))
        try:
            return respond(request)
        finally:
            _needed.reset(token)

    return answer


class Router:
    """Django's: reads of a view from where it looks, writes and all else from the primary."""

    def db_for_read(self, _model: type, **_: Any) -> str:
        return _alias.get()

    def db_for_write(self, _model: type, **_: Any) -> str:
        return DEFAULT_DB_ALIAS

    def allow_relation(self, *_: Any, **__: Any) -> bool:
        return True  # both are one database

    def allow_migrate(self, alias: str, *_: Any, **__: Any) -> bool:
        return alias != REPLICA


def _current_alias() -> str:
    """The replica's, where it may be read now."""
    needed = _needed.get()
    if needed is None or not has_replica() or time.monotonic() < _asked_again_at[0]:
        return DEFAULT_DB_ALIAS
    try:
        with connections[REPLICA].cursor() as cursor:
            cursor.execute(IS_CURRENT, [needed, MAX_AGE_S])
            [is_current] = cursor.fetchone()
    except (DatabaseError, PoolTimeout) as error:
        _asked_again_at[0] = time.monotonic() + LEFT_ALONE_S
        log.warning("replica does not answer", error=f"{type(error).__name__}: {error}")
        return DEFAULT_DB_ALIAS
    return REPLICA if is_current else DEFAULT_DB_ALIAS


def _needed_by(request: HttpRequest) -> str:
    """A cookie that nobody of us wrote asks for nothing, or for what never comes: the primary."""
    position = request.COOKIES.get(COOKIE, NOTHING_WRITTEN)
    return position if POSITION.fullmatch(position) else NOTHING_WRITTEN


def _keep_position(response: HttpResponse) -> None:
    """What this browser wrote lies before it."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
        [position] = cursor.fetchone()
    response.set_cookie(
        COOKIE,
        position,
        max_age=MAX_AGE_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _newest_heartbeat(alias: str) -> float | None:
    """Seconds of the epoch; None where the database does not answer, or has none."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM max(at))::float FROM operations_heartbeat")
            [newest] = cursor.fetchone()
    except (DatabaseError, PoolTimeout):
        return None
    return None if newest is None else float(newest)
