"""Back-pressure: what agents hear while sealing lags, just under and at each threshold."""

from datetime import timedelta

import pytest

from fleetwatch.ingest import pressure as thresholds
from fleetwatch.ingest.pressure import REFUSED_FROM, SLOWER_FROM, meaning, pressure
from fleetwatch.inventory.models import Node
from fleetwatch.telemetry.models import Batch, SealMark
from fleetwatch.telemetry.seal import GRACE, HOUR
from fleetwatch.telemetry.selectors import have_waited_to_be_sealed
from tests.ingest.factories import NOW, payload, post, token
from tests.ingest.wsgi import DoorClient

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _looks_anew(clock, monkeypatch):
    monkeypatch.setattr(thresholds, "FEW", 1)
    monkeypatch.setattr(thresholds, "FEW_OF_NODE", 1)
    pressure.forget()
    yield
    pressure.forget()


@pytest.fixture(params=["django", "door"])
def client(request, client):
    return client if request.param == "django" else DoorClient()


def waiting(age, *, hour=None, received_at=None):
    """A batch that could have been sealed so long ago, of an hour that was over then."""
    SealMark.objects.create(
        node_id=1,
        hour=hour or NOW - age - GRACE - HOUR,
        batch_id=-1,
        batch_received_at=received_at or NOW - age,
    )


@pytest.mark.parametrize(
    ("age", "flush_s"),
    [
        (timedelta(0), 30),
        (SLOWER_FROM - SECOND, 30),
        (SLOWER_FROM, 120),
        (REFUSED_FROM - SECOND, 120),
    ],
)
def test_agents_are_asked_for_longer_batches_while_many_wait_long(client, age, flush_s):
    waiting(age)

    answer = post(client, payload(), bearer=token())

    assert answer.json()["next_flush_s"] == flush_s


def test_agents_are_sent_away_while_many_wait_too_long_and_nothing_is_left(client):
    waiting(REFUSED_FROM)

    answer = post(client, payload(), bearer=token())

    assert answer.status_code == 429
    assert answer["Retry-After"] == "60"
    assert set(answer.json()) == {"error", "field"}
    assert not Batch.objects.exists()


def test_who_may_not_enter_is_told_so_also_then(client):
    waiting(REFUSED_FROM)

    assert post(client, payload(), bearer="fw_unknown").status_code == 401


def test_agents_that_are_known_are_sent_away_too():
    door, bearer = DoorClient(), token()
    post(door, payload(), bearer=bearer)
    waiting(REFUSED_FROM)
    pressure.forget()

    answer = post(
        door,
        payload(sequence=2, start_ms=payload()["windows"]["start_ms"][-1] + 10_000),
        bearer=bearer,
    )

    assert answer.status_code == 429
    assert Batch.objects.count() == 1


def test_it_ends_when_the_batches_are_sealed(client):
    waiting(REFUSED_FROM)
    bearer = token()
    post(client, payload(), bearer=bearer)
    SealMark.objects.all().delete()
    pressure.forget()

    assert post(client, payload(), bearer=bearer).status_code == 200


def test_it_looks_no_more_often_than_said(client, monkeypatch):
    bearer = token()
    post(client, payload(), bearer=bearer)
    waiting(REFUSED_FROM)

    soon = post(client, payload(sequence=2), bearer=bearer)

    assert soon.status_code == 200


@pytest.mark.parametrize(
    ("hour", "received_at", "expected"),
    [
        (NOW - HOUR - GRACE - SLOWER_FROM, NOW - SLOWER_FROM, True),
        # the hour was over later
        (NOW - HOUR - GRACE - SLOWER_FROM + SECOND, NOW - SLOWER_FROM, False),
        # it came later, of whatever day it is
        (NOW - timedelta(days=6), NOW - SLOWER_FROM + SECOND, False),
        (NOW - timedelta(days=6), NOW - SLOWER_FROM, True),
    ],
)
def test_a_batch_waits_since_its_hour_was_over_and_it_had_arrived(hour, received_at, expected):
    waiting(SLOWER_FROM, hour=hour, received_at=received_at)

    assert have_waited_to_be_sealed(1, SLOWER_FROM, NOW) is expected
    assert not have_waited_to_be_sealed(2, SLOWER_FROM, NOW)


def test_however_many_come_late_together_none_is_old(client):
    for hours_ago in range(2, 50):
        waiting(timedelta(0), hour=NOW - timedelta(hours=hours_ago), received_at=NOW - SECOND)

    answer = post(client, payload(), bearer=token())

    assert answer.json()["next_flush_s"] == 30


@pytest.mark.parametrize(
    ("few", "few_of_node", "waiting_batches", "flush_s"),
    [(3, 0, 2, 30), (3, 0, 3, 120), (0, 2, 3, 30), (0, 2, 4, 120)],
)
def test_few_that_wait_are_no_lag_however_long(
    few, few_of_node, waiting_batches, flush_s, monkeypatch
):
    monkeypatch.setattr(thresholds, "FEW", few)
    monkeypatch.setattr(thresholds, "FEW_OF_NODE", few_of_node)
    door, bearer = DoorClient(), token()
    Node.objects.create(name="another")
    for _ in range(waiting_batches):
        waiting(REFUSED_FROM - SECOND)

    answer = post(door, payload(), bearer=bearer)

    assert answer.json()["next_flush_s"] == flush_s


def test_the_words_for_people():
    words = [
        meaning(age)[:19]
        for age in (SLOWER_FROM - SECOND, SLOWER_FROM, REFUSED_FROM - SECOND, REFUSED_FROM)
    ]

    assert words == ["in closed hours, st", *["many for two hours:"] * 2, "many for a day: age"]
