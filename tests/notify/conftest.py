from collections.abc import Iterator

import pytest

from tests.notify.fakes import FakeSlack, FakeSMTP


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    server = FakeSlack()
    yield server
    server.stop()


@pytest.fixture
def smtp() -> Iterator[FakeSMTP]:
    server = FakeSMTP()
    yield server
    server.stop()
