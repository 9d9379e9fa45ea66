import pytest
import time_machine

from tests.dashboard import factories


@pytest.fixture(autouse=True)
def _quick(plain_static_files):
    """The browser tests serve the real ones."""


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
    client.force_login(factories.user(role="engineer", username="vera"))
    return client
