from collections.abc import Iterator
from copy import deepcopy

import pytest
import time_machine
from django.core.cache import cache

from fleetwatch.jobs.models import Job
from tests.accounts import others, world
from tests.dashboard.factories import NOW
from tests.notify.fakes import FakeSlack, FakeSMTP
from tests.shared_rows import shared_rows


@pytest.fixture(autouse=True)
def _no_memory_of_attempts():
    cache.clear()


@pytest.fixture(autouse=True)
def _static_files_without_manifest(plain_static_files):
    """The browser tests serve the real ones."""


@pytest.fixture(scope="module")
def _shared_world(django_db_setup, django_db_blocker) -> Iterator[world.World]:
    """Made once for the tests of a file: each takes back what it changed, and so does the last."""
    slack, smtp = FakeSlack(), FakeSMTP()
    with shared_rows(django_db_blocker):
        with time_machine.travel(NOW, tick=False):
            shared = world.make(slack.url, smtp.port)
        yield shared
    slack.stop()
    smtp.stop()


@pytest.fixture
def there(_shared_world, db, settings) -> Iterator[world.World]:
    settings.METRICS_ALLOW = []
    with time_machine.travel(NOW, tick=False):
        yield deepcopy(_shared_world)


@pytest.fixture(scope="module")
def _shared_others(_shared_world, django_db_blocker) -> Iterator[None]:
    with shared_rows(django_db_blocker):
        with time_machine.travel(NOW, tick=False):
            others.make()
        yield


@pytest.fixture
def split(_shared_others, there) -> world.World:
    """The world with another team's; a file that uses it has no tests of the world without."""
    return there


@pytest.fixture(name="others")
def others_job(split) -> Job:
    return Job.objects.get(key=others.OTHERS_KEY)
