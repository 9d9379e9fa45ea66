"""Back-pressure: what agents hear while sealing lags, just under and at each threshold."""

from datetime import timedelta

import pytest

from fleetwatch.ingest import pressure as thresholds
from fleetwatch.ingest.pressure import meaning, pressure
from fleetwatch.telemetry.models import Batch, SealMark
from fleetwatch.telemetry.selectors import overdue_batches
from tests.ingest.factories import NOW, payload, post, token
from tests.ingest.wsgi import DoorClient

pytestmark = pytest.mark.django_db
LONG_CLOSED = NOW.replace(minute=0) - timedelta(hours=3)


@pytest.fixture(autouse=True)
def _pressed_early(monkeypatch, clock):
    monkeypatch.setattr(thresholds, "SLOWER_FROM", 3)
    monkeypatch.setattr(thresholds, "REFUSED_FROM", 5)
    pressure.forget()
    yield
    pressure.forget()


@pytest.fixture(params=["django", "door"])
def client(request, client):
    return client if request.param == "django" else DoorClient()


def waiting(count, hour=LONG_CLOSED):
    SealMark.objects.bulk_create(
        [SealMark(node_id=1, hour=hour, batch_id=-1, batch_received_at=NOW) for _ in range(count)]
    )


@pytest.mark.parametrize(("count", "flush_s"), [(0, 30), (2, 30), (3, 120), (4, 120)])
def test_agents_are_asked_for_longer_batches_while_many_wait(client, count, flush_s):
    waiting(count)

    answer = post(client, payload(), bearer=token())

    assert answer.json()["next_flush_s"] == flush_s


def test_agents_are_sent_away_while_too_many_wait_and_nothing_is_left(client):
    waiting(5)

    answer = post(client, payload(), bearer=token())

    assert answer.status_code == 429
    assert answer["Retry-After"] == "60"
    assert set(answer.json()) == {"error", "field"}
    assert not Batch.objects.exists()


def test_who_may_not_enter_is_told_so_also_then(client):
    waiting(5)

    assert post(client, payload(), bearer="fw_unknown").status_code == 401


def test_agents_that_are_known_are_sent_away_too():
    door, bearer = DoorClient(), token()
    post(door, payload(), bearer=bearer)
    waiting(5)
    pressure.forget()

    answer = post(
        door,
        payload(sequence=2, start_ms=payload()["windows"]["start_ms"][-1] + 10_000),
        bearer=bearer,
    )

    assert answer.status_code == 429
    assert Batch.objects.count() == 1


def test_it_ends_when_the_batches_are_sealed(client):
    waiting(5)
    bearer = token()
    post(client, payload(), bearer=bearer)
    SealMark.objects.all().delete()
    pressure.forget()

    assert post(client, payload(), bearer=bearer).status_code == 200


def test_it_looks_no_more_often_than_said(client, monkeypatch):
    bearer = token()
    post(client, payload(), bearer=bearer)
    waiting(5)

    soon = post(client, payload(sequence=2), bearer=bearer)

    assert soon.status_code == 200


@pytest.mark.parametrize(("minutes_ago", "expected"), [(71, 0), (72, 1)])
def test_an_hour_is_overdue_two_minutes_after_it_could_have_been_sealed(minutes_ago, expected):
    waiting(1, hour=NOW - timedelta(minutes=minutes_ago))

    assert overdue_batches(NOW, limit=10) == expected


def test_it_counts_no_further_than_it_must():
    waiting(9)

    assert overdue_batches(NOW, limit=5) == 5


def test_the_words_for_people():
    assert [meaning(count)[:4] for count in (2, 3, 5)] == ["in c", "many", "too "]
