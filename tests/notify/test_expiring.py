"""What holds for a while only, and what is taken back, is not sent later."""

from datetime import timedelta

import pytest

from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import expire
from tests.notify.factories import NOON, deliver, queue, slack_channel

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture
def delivery() -> Delivery:
    """One that is good for ten seconds."""
    queue(slack_channel("http://127.0.0.1:9"))
    delivery = Delivery.objects.get()
    assert expire(delivery, NOON + 10 * SECOND)
    return delivery


@pytest.mark.parametrize(("seconds", "state"), [(9, "pending"), (10, "failed"), (11, "failed")])
def test_it_is_given_up_when_it_holds_no_longer(delivery, seconds, state):
    did = deliver(NOON + seconds * SECOND)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (state, int(state == "pending"))
    assert did["expired"] == (state == "failed")


def test_what_is_being_sent_may_arrive_still(delivery):
    Delivery.objects.update(state="sending", next_attempt_at=NOON + 60 * SECOND)

    assert deliver(NOON + 11 * SECOND)["expired"] == 0
    assert deliver(NOON + 60 * SECOND)["expired"] == 1


def test_it_is_taken_back_once_and_never_good_for_longer(delivery):
    assert expire(delivery, NOON + 5 * SECOND)

    assert not expire(delivery, NOON + 5 * SECOND)
    assert not expire(delivery, NOON + 20 * SECOND)


def test_what_was_sent_is_not_taken_back(delivery):
    Delivery.objects.update(state="sent")

    assert not expire(delivery, NOON)
