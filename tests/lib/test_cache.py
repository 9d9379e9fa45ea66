"""The cache and the queue on a real Redis: whoever writes there runs nothing here."""

import os
import pickle

import pytest
import redis
from django.conf import settings
from django.core.cache import cache
from kombu.exceptions import ContentDisallowed

from fleetwatch.celery import app


class Trap:
    """Its pickle makes a folder where it is loaded."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __reduce__(self):
        return os.mkdir, (self.where,)


@pytest.fixture
def server():
    return redis.Redis.from_url(settings.REDIS_URL)


@pytest.fixture(autouse=True)
def _empty():
    cache.clear()


def test_a_pickle_planted_in_redis_is_not_loaded(server, tmp_path):
    server.set(cache.make_key("planted"), pickle.dumps(Trap(str(tmp_path / "proof"))))

    assert cache.get("planted", "nothing") == "nothing"
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("value", [[1.5, 2], {"a": None}, "text", True, 0, -7, None])
def test_what_is_kept_comes_back(value):
    cache.set("key", value, 60)

    assert cache.get("key", "nothing") == value
    assert type(cache.get("key", "nothing")) is type(value)


def test_a_number_is_counted_by_redis_itself():
    assert cache.add("count", 0, 60)
    assert not cache.add("count", 5, 60)

    assert [cache.incr("count"), cache.incr("count"), cache.decr("count"), cache.get("count")] == [
        1,
        2,
        1,
        1,
    ]


def test_a_pickled_message_planted_in_the_queue_is_refused(tmp_path):
    with app.connection_for_write() as connection:
        queue = connection.SimpleQueue("planted")
        queue.put(Trap(str(tmp_path / "proof")), serializer="pickle")
        consumer = app.amqp.TaskConsumer(connection.default_channel, queues=[queue.queue])
        message = queue.queue(connection.default_channel).get(accept=consumer.accept)

        with pytest.raises(ContentDisallowed):
            message.decode()

    assert not (tmp_path / "proof").exists()
