"""Where Redis is: a server, a socket, or sentinels that know which server it is now."""

import pytest
from redis.sentinel import SentinelConnectionPool

from fleetwatch.lib.cache import JSONCache
from fleetwatch.lib.env import ConfigurationError
from fleetwatch.lib.redis_servers import read

OF_SENTINELS = "sentinel://:p%40ss@s1:26379,s2:26380,s3/2?master=fleetwatch&sentinel_password=other"


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("", "memory://"),
        ("redis://:secret@redis:6379/0", "redis://:secret@redis:6379/0"),
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock"),
        (
            OF_SENTINELS,
            ";".join(f"sentinel://:p%40ss@{at}/2" for at in ("s1:26379", "s2:26380", "s3:26379")),
        ),
        ("sentinel://s1/0?master=m", "sentinel://s1:26379/0"),
        ("sentinel://s1,[::1]:26380?master=m", "sentinel://s1:26379/0;sentinel://[::1]:26380/0"),
    ],
)
def test_the_broker_s_address_is_in_its_transport_s_words(url, broker):
    assert read(url).broker_url == broker


def test_of_sentinels_the_broker_is_told_whom_they_watch_and_how_to_ask_them():
    options = read(OF_SENTINELS).broker_options

    assert options["master_name"] == "fleetwatch"
    assert options["sentinel_kwargs"]["password"] == "other"
    assert read("redis://redis").broker_options == {}


def test_connections_go_to_whom_the_sentinels_name():
    pool = read(OF_SENTINELS).pool(socket_timeout=2)

    assert isinstance(pool, SentinelConnectionPool)
    assert pool.service_name == "fleetwatch"
    assert (pool.connection_kwargs["db"], pool.connection_kwargs["password"]) == (2, "p@ss")


@pytest.mark.parametrize(
    "url",
    ["sentinel://s1:26379/0", "sentinel://s1/zero?master=m", "sentinel://s1:port/0?master=m"],
)
def test_sentinels_without_a_name_to_watch_or_with_no_port_are_refused_by_the_variable_s_name(url):
    with pytest.raises(ConfigurationError, match="REDIS_URL"):
        read(url)


def test_no_password_is_in_its_representation():
    shown = repr(read(OF_SENTINELS))

    assert "s1" in shown
    assert not any(secret in shown for secret in ("p@ss", "p%40ss", "other"))


def test_the_cache_takes_an_address_of_several_sentinels_as_one():
    cache = JSONCache(OF_SENTINELS, {})

    assert cache._cache._get_connection_pool(write=True).service_name == "fleetwatch"
