"""The cache on Redis, with values as JSON: whoever can write to Redis can lie there, and run
nothing here.
"""

from typing import Any

import msgspec
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis import ConnectionPool

from fleetwatch.lib import redis_servers

# A server beside us answers within a millisecond; what waits for one that is frozen holds a thread.
TIMEOUT_S = 2
CACHE_AWAY = "Redis does not answer, and without it nobody's password is checked"


class JSONSerializer:
    """Values as JSON. Django's own serializer unpickles what it finds: code of whoever wrote it."""

    def dumps(self, obj: Any) -> bytes:
        return msgspec.json.encode(obj)

    def loads(self, data: bytes) -> Any:
        return msgspec.json.decode(data)


class JSONCacheClient(RedisCacheClient):
    """What is no JSON was not written by us, or by an older version: it is as if it were
    not there.
    """

    def __init__(self, servers: list[str], **options: Any) -> None:
        given = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S, **options}
        super().__init__(servers, serializer="fleetwatch.lib.cache.JSONSerializer", **given)
        self._pool = redis_servers.read(servers[0]).pool(**given)

    def _get_connection_pool(self, write: bool) -> ConnectionPool:
        return self._pool

    def get(self, key: Any, default: Any) -> Any:
        try:
            return super().get(key, default)
        except msgspec.DecodeError:
            return default


class JSONCache(RedisCache):
    """django.core.cache's interface; BACKEND in the settings."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__([server], params)  # as a text Django would part it at commas
        self._class = JSONCacheClient
