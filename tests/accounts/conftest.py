from collections.abc import Iterator

import pytest
import time_machine
from django.core.cache import cache

from tests.accounts import world
from tests.dashboard.factories import NOW


@pytest.fixture(autouse=True)
def _no_memory_of_attempts():
    cache.clear()


@pytest.fixture(autouse=True)
def _static_files_without_manifest(plain_static_files):
    """The browser tests serve the real ones."""


@pytest.fixture
def there(db, slack, smtp, settings) -> Iterator[world.World]:
    settings.METRICS_ALLOW = []
    with time_machine.travel(NOW, tick=False):
        yield world.make(slack.url, smtp.port)
