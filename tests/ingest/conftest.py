from collections.abc import Iterator

import pytest
import time_machine

from tests.ingest.factories import NOW


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    """The clock stands at NOW until it is moved."""
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller
