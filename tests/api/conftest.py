from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import create_api_token

NOW = datetime(2026, 11, 3, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_midnight():
    """The clock stands at NOW: the default period is the 2nd of November."""
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def user(db):
    return User.objects.create(username="ann", role=User.Role.ENGINEER)


@pytest.fixture
def bearer(user):
    """The header of an API token."""
    return {"Authorization": f"Bearer {create_api_token(user, scope='read', now=NOW)}"}


@pytest.fixture
def api(bearer):
    """A client with an API token."""
    return Client(headers=bearer)
