"""Whether this instance can do its work: database, Redis, a living worker."""

from datetime import datetime

import redis
from django.conf import settings
from django.db import Error as DatabaseError

from fleetwatch.lib import redis_servers
from fleetwatch.lib.sql import execute
from fleetwatch.operations import disk
from fleetwatch.operations.selectors import heartbeat_age_s

WORKER = "worker"
# beat sends every 10 s; six missed ones are no hiccup
MAX_HEARTBEAT_AGE_S = 60
REDIS_TIMEOUT_S = 2


def missing(now: datetime) -> list[str]:
    """The names of what does not answer, of database, redis, worker and room on the disk; empty =
    ready.
    """
    has_database = _database_answers()
    is_there = {
        "database": has_database,
        "redis": _redis_answers(),
        # its heartbeats are rows: without a database nothing is known of it, and asking would only
        # wait again
        "worker": has_database and _worker_lives(now),
        "disk": not disk.trouble(),
    }
    return [name for name, is_fine in is_there.items() if not is_fine]


def celery_queue_depth() -> int | None:
    """Tasks that wait in Redis; None when it does not answer."""
    try:
        with _client() as client:
            return int(client.llen("celery"))
    except redis.RedisError:
        return None


def _database_answers() -> bool:
    try:
        execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _redis_answers() -> bool:
    try:
        with _client() as client:
            return bool(client.ping())
    except (redis.RedisError, ValueError):  # ValueError: no address is set
        return False


def _worker_lives(now: datetime) -> bool:
    try:
        age_s = heartbeat_age_s(WORKER, now)
    except DatabaseError:  # not migrated yet
        return False
    return age_s is not None and age_s <= MAX_HEARTBEAT_AGE_S


def _client() -> redis.Redis:
    return redis_servers.read(settings.REDIS_URL).client(
        socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
    )
