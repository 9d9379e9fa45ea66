import pytest
import time_machine

from tests.dashboard import factories


@pytest.fixture(autouse=True)
def _quick(settings):
    """Templates need no collected manifest here: the browser tests serve the real one."""
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }


@pytest.fixture
def _frozen():
    with time_machine.travel(factories.NOW, tick=False):
        yield


@pytest.fixture
def admin(db, client, _frozen):
    """A client logged in as an admin, at NOW."""
    client.force_login(factories.user())
    return client


@pytest.fixture
def viewer(db, client, _frozen):
    client.force_login(factories.user(role="viewer", username="vera"))
    return client
