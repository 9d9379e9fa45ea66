"""How far back a node's windows count of GPUs that it had not named before."""

from datetime import timedelta

import pytest

from fleetwatch.ingest import tokens
from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.telemetry.models import Batch, ReceivedSequence, SealMark
from tests.ingest.factories import NOW, NOW_MS, T0, gpu, payload, post, token
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
MINUTE, DAY = 60_000, 86_400_000
REACH = NOW_MS - 7 * DAY  # a batch that ends here is too old


@pytest.fixture(params=["django", "door"])
def client(request, client):
    return client if request.param == "django" else DoorClient()


def enrolled(node="n1"):
    return tokens.enroll(
        tokens.create_enrollment_token(NOW, uses=1, ttl=timedelta(hours=1)), node, NOW
    )


def spool(number, end_ms, **keys):
    """A batch of three windows that end at `end_ms`."""
    return payload(sequence=number, start_ms=end_ms - 30_000, **keys)


@pytest.mark.parametrize(("late_ms", "stored"), [(-1, 0), (0, 0), (1, 3)])
def test_an_agent_installed_while_its_hub_was_away_brings_seven_days(client, late_ms, stored):
    answer = post(client, spool(1, REACH + late_ms), bearer=enrolled())

    assert answer.json()["stored"] == stored
    assert len(answer.json().get("refused", [])) == (0 if stored else 1)


def test_invented_gpus_have_no_past_and_the_answer_says_why(client):
    bearer = token()
    post(client, payload(), bearer=bearer)
    invented = [gpu(f"GPU-{number}") for number in range(2, 18)]

    answer = post(client, spool(2, NOW_MS - 34 * DAY, gpus=invented), bearer=bearer)

    assert (answer.status_code, answer.json()["stored"], answer.json()["duplicate"]) == (200, 0, 0)
    assert [refused["gpu"] for refused in answer.json()["refused"]] == sorted(
        item["uuid"] for item in invented
    )
    assert "create_agent_token --import n1" in answer.json()["refused"][0]["why"]
    assert list(GPU.objects.values_list("uuid", flat=True)) == ["GPU-1"]
    assert (Batch.objects.count(), SealMark.objects.count()) == (1, 1)


def test_a_known_gpu_has_no_past_before_its_first_window_but_all_of_its_outage(client):
    bearer = token()
    post(client, spool(1, NOW_MS - 20 * DAY), bearer=bearer)  # a log of a new node
    post(client, payload(sequence=2), bearer=bearer)

    before = post(client, spool(3, NOW_MS - 21 * DAY), bearer=bearer)
    outage = post(client, spool(4, NOW_MS - 19 * DAY), bearer=bearer)

    assert (before.json()["stored"], outage.json()["stored"]) == (0, 3)
    assert GPU.objects.get().first_ms == NOW_MS - 20 * DAY - 30_000


def test_what_is_left_out_costs_only_its_own_gpu(client):
    bearer = token()
    post(client, spool(1, NOW_MS - 20 * DAY), bearer=bearer)
    post(client, payload(sequence=2), bearer=bearer)
    both = spool(3, NOW_MS - 10 * DAY, gpus=[gpu("GPU-1"), gpu("GPU-2")])

    answer = post(client, both, bearer=bearer)
    again = post(client, both, bearer=bearer)

    assert (answer.json()["stored"], again.json()["stored"], again.json()["duplicate"]) == (3, 0, 1)
    assert [refused["gpu"] for refused in answer.json()["refused"]] == ["GPU-2"]
    assert set(Stay.objects.values_list("uuid", flat=True)) == {"GPU-1"}


def test_a_log_of_a_new_node_needs_a_token_that_was_made_for_it(client):
    log = spool(1, NOW_MS - 19 * DAY)

    by_enrolment = post(client, log, bearer=enrolled("n1"))
    by_hand = post(client, log | {"node": "n2"}, bearer=token("n2"))

    assert (by_enrolment.json()["stored"], by_hand.json()["stored"]) == (0, 3)


def test_what_was_left_out_can_be_sent_with_the_right_to_import(client):
    log = spool(2, NOW_MS - 19 * DAY)
    post(client, payload(), bearer=enrolled())

    refused = post(client, log, bearer=create_agent_token("n1", NOW))
    stored = post(client, log, bearer=create_agent_token("n1", NOW, Rights(may_import=True)))

    assert (refused.json()["stored"], stored.json()["stored"], stored.json()["duplicate"]) == (
        0,
        3,
        0,
    )
    assert ReceivedSequence.objects.get().received == [(1, 3)]


def test_an_instance_gives_a_gpu_no_past_that_it_had_not_been_a_part_of(client):
    part = gpu("MIG-1", parent_uuid="GPU-1", mig_profile="3g.40gb")
    bearer = token()
    post(client, spool(1, NOW_MS - 20 * DAY, gpus=[part]), bearer=bearer)
    post(client, payload(sequence=2, gpus=[part]), bearer=bearer)

    answer = post(
        client, spool(3, NOW_MS - 10 * DAY, gpus=[part | {"parent_uuid": "GPU-2"}]), bearer=bearer
    )

    assert answer.json()["stored"] == 0
    assert not GPU.objects.filter(uuid="GPU-2").exists()


def test_a_clock_that_is_days_behind_reaches_no_farther_and_no_less(client):
    behind_ms = 30 * DAY
    sent = str(NOW_MS - behind_ms)
    boot = T0 - behind_ms

    answer = post(
        client,
        payload(start_ms=T0 - behind_ms, boot_start_ms=boot),
        bearer=enrolled(),
        X_FleetWatch_Sent_Ms=sent,
    )

    assert answer.json()["stored"] == 3


def test_the_batch_of_another_node_is_403_however_old(client):
    token("n2")

    answer = post(client, spool(1, NOW_MS - 34 * DAY, node="n2"), bearer=enrolled("n1"))

    assert (answer.status_code, answer.json()["field"]) == (403, "node")
