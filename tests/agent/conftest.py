import pytest

from tests.agent.hub import Hub


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.close()
