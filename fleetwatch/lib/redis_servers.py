"""Redis: one server, or the one of several that their sentinels name now."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from redis import ConnectionPool, Redis
from redis.sentinel import Sentinel, SentinelConnectionPool

from fleetwatch.lib import env

SENTINEL = "sentinel"
SENTINEL_PORT = 26379
TIMEOUT_S = 2  # a sentinel that is gone is passed by


@dataclass(frozen=True, slots=True)
class RedisServers:
    """What an address says: of a single server `url`, of sentinels where they are and what they
    call the server that is written to (`master`, the protocol's word).
    """

    url: str = field(repr=False)
    sentinels: Sequence[tuple[str, int]] = ()
    master: str = ""
    password: str = field(default="", repr=False)
    sentinel_password: str = field(default="", repr=False)
    number: int = 0

    @property
    def broker_url(self) -> str:
        """As Celery's transport writes it."""
        if not self.url:
            return "memory://"
        if not self.sentinels:  # its word for a Redis on a unix socket is another than the client's
            return self.url.replace("unix://", "redis+socket://", 1)
        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        named = [(f"[{host}]" if ":" in host else host, port) for host, port in self.sentinels]
        return ";".join(f"{SENTINEL}://{secret}{host}:{port}/{self.number}" for host, port in named)

    @property
    def broker_options(self) -> dict[str, Any]:
        """Of Celery's transport."""
        if not self.sentinels:
            return {}
        return {"master_name": self.master, "sentinel_kwargs": self._sentinel_options()}

    def pool(self, **options: Any) -> ConnectionPool:
        """Connections to the server that is written to, whichever that is by then."""
        if not self.sentinels:
            return ConnectionPool.from_url(self.url, **options)
        # the library brings no types for sentinels
        watchers = Sentinel(self.sentinels, sentinel_kwargs=self._sentinel_options())  # type: ignore[no-untyped-call]
        if self.password:
            options["password"] = self.password
        pool: ConnectionPool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            self.master, watchers, db=self.number, **options
        )
        return pool

    def client(self, **options: Any) -> Redis:
        """A client of its own; to be closed."""
        return Redis.from_pool(self.pool(**options))

    def _sentinel_options(self) -> dict[str, Any]:
        secret = {"password": self.sentinel_password} if self.sentinel_password else {}
        return {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S, **secret}


def read(url: str) -> RedisServers:
    """What the address says; "" of none.

    Raises ConfigurationError for one of sentinels that does not name whom they watch.
    """
    parts, _ = env.split_hosts(url)
    if parts.scheme != SENTINEL:
        return RedisServers(url)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    number = parts.path.lstrip("/") or "0"
    if not options.get("master") or not number.isdecimal():
        raise env.ConfigurationError(
            "REDIS_URL: expected sentinel://:password@host:26379,host:26379/0?master=NAME"
        )
    hosts = env.hosts_of(url, "REDIS_URL")
    return RedisServers(
        url,
        sentinels=[(host, port or SENTINEL_PORT) for host, port in hosts],
        master=options["master"],
        password=unquote(parts.password or ""),
        sentinel_password=options.get("sentinel_password", ""),
        number=int(number),
    )
