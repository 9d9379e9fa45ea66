"""Orders reach the agent of their node in the answers to its batches, and it believes them."""

from datetime import timedelta

import pytest

from agent.actions.orders import OrderError, believed, signing_key
from fleetwatch.ingest.models import AgentToken, NodeOrder
from fleetwatch.ingest.node_orders import LASTS, OrderTerms, give, open_orders
from fleetwatch.ingest.tokens import revoke_agent_token
from fleetwatch.inventory.models import Node
from tests.ingest.factories import NOW, NOW_MS, payload, post, token
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
BEGIN = NOW_MS - 3 * 3_600_000
STOP = OrderTerms(
    "stop_job",
    "slurm",
    "7",
    ("GPU-1",),
    timedelta(minutes=30),
    "idle since 09:10",
    is_dry_run=False,
)


@pytest.fixture(autouse=True)
def _look_each_time(monkeypatch):
    open_orders.forget()
    monkeypatch.setattr("fleetwatch.ingest.node_orders.LOOK_EVERY_S", 0.0)
    yield
    open_orders._by_token = {}


@pytest.fixture
def client():
    return DoorClient()


def sent(client, bearer: str, number: int, **keys) -> list[dict]:
    """The orders in the answer to the node's batch of that minute."""
    batch = payload(sequence=number, start_ms=BEGIN + number * 60_000, count=6, **keys)
    return post(client, batch, bearer=bearer).json()["actions"]


def test_an_order_is_in_the_answers_of_both_ways_until_it_expires(client):
    bearer = token()
    assert sent(client, bearer, 0) == []
    order = give(Node.objects.get(), STOP, NOW)

    first, second = sent(client, bearer, 1), sent(client, bearer, 2)
    NodeOrder.objects.update(expires_at=NOW)
    last = sent(client, bearer, 3)

    assert (client.long, client.short) == (1, 3)
    assert [each["key"] for each in (*first, *second)] == [order.key] * 2
    assert last == []


def test_the_agent_believes_what_was_signed_for_its_token(client):
    bearer = token()
    sent(client, bearer, 0)
    give(Node.objects.get(), STOP, NOW)

    [raw] = sent(client, bearer, 1)
    order = believed(raw, key=signing_key(bearer), node="n1", now_ms=NOW_MS)

    assert (order.scheduler, order.job, order.gpus) == ("slurm", "7", ("GPU-1",))
    assert (order.grace_ms, order.is_dry_run) == (30 * 60_000, False)
    assert order.expires_ms == NOW_MS + LASTS // timedelta(milliseconds=1)
    with pytest.raises(OrderError):
        believed(raw, key=signing_key(token("n2")), node="n1", now_ms=NOW_MS)


def test_another_node_is_told_nothing_of_it(client):
    bearer, other = token(), token("n2")
    sent(client, bearer, 0)
    give(Node.objects.get(name="n1"), STOP, NOW)

    assert sent(client, other, 0, node="n2", gpus=[{"uuid": "GPU-2", "index": 0}]) == []


def test_each_token_of_the_node_has_its_own_signature_and_a_revoked_one_none(client):
    bearer, second = token(), token()
    sent(client, bearer, 0)
    give(Node.objects.get(), STOP, NOW)

    [by_first] = sent(client, bearer, 1)
    [by_second] = sent(client, second, 2)
    revoke_agent_token(AgentToken.objects.order_by("pk").first().pk, NOW)
    open_orders.look(NOW)

    assert by_first["signature"] != by_second["signature"]
    assert believed(by_second, key=signing_key(second), node="n1", now_ms=NOW_MS)
    assert list(open_orders._by_token) == [AgentToken.objects.order_by("pk").last().pk]
