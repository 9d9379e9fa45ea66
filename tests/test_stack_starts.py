import pytest
import redis
from django.conf import settings
from django.core.cache import cache
from django.db import connection

from tests import conftest


@pytest.mark.django_db
def test_tests_run_on_a_real_postgres_18_and_a_real_valkey_9():
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        version = int(cursor.fetchone()[0])
    cache.set("here", 1)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        server = client.info("server")

    assert version >= 150000
    assert cache.get("here") == 1
    assert server["valkey_version"] >= "9.1"


def test_any_folder_can_be_the_first_whose_conftest_is_read():
    assert conftest.IS_DJANGO_READY
