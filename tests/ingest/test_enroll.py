"""POST /api/v1/enroll: an enrolment token becomes a node's own token."""

from datetime import timedelta

import pytest
import time_machine

from fleetwatch.ingest.models import AgentToken, EnrollmentToken
from fleetwatch.ingest.tokens import create_enrollment_token, revoke_agent_token, revoke_enrollment_token
from fleetwatch.inventory.models import Node
from tests.ingest.factories import NOW, payload, post, token

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _noon():
    with time_machine.travel(NOW, tick=False):
        yield


def enroll(client, node, *, bearer, **keys):
    return client.post(
        "/api/v1/enroll", {"node": node, **keys}, content_type="application/json", headers={"authorization": f"Bearer {bearer}"}
    )


def test_a_new_node_gets_a_token_that_works(client):
    answer = enroll(client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR))

    assert answer.status_code == 201
    assert answer.json()["node"] == "n1"
    assert post(client, payload(), bearer=answer.json()["token"]).status_code == 200


def test_a_node_with_a_live_token_is_409_and_costs_no_use(client):
    bearer = create_enrollment_token(NOW, uses=1, ttl=HOUR)
    token("n1")

    answer = enroll(client, "n1", bearer=bearer)

    assert answer.status_code == 409
    assert EnrollmentToken.objects.get().uses_left == 1
    assert AgentToken.objects.count() == 1


def test_a_node_whose_token_was_revoked_enrols_again(client):
    token("n1")
    revoke_agent_token(AgentToken.objects.get().pk, NOW)

    assert enroll(client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR)).status_code == 201


def test_a_used_up_token_is_401(client):
    bearer = create_enrollment_token(NOW, uses=2, ttl=HOUR)

    statuses = [enroll(client, name, bearer=bearer).status_code for name in ("n1", "n2", "n3")]

    assert statuses == [201, 201, 401]
    assert not Node.objects.filter(name="n3").exists()


@pytest.mark.parametrize(("age", "status"), [(HOUR - timedelta(seconds=1), 201), (HOUR, 401)])
def test_an_enrolment_token_ends_on_time(client, age, status):
    bearer = create_enrollment_token(NOW - age, uses=1, ttl=HOUR)

    assert enroll(client, "n1", bearer=bearer).status_code == status


def test_a_revoked_or_unknown_enrolment_token_is_401(client):
    bearer = create_enrollment_token(NOW, uses=1, ttl=HOUR)
    revoke_enrollment_token(EnrollmentToken.objects.get().pk, NOW)

    assert enroll(client, "n1", bearer=bearer).status_code == 401
    assert enroll(client, "n1", bearer="fw_other").status_code == 401
    assert enroll(client, "n1", bearer=token("n9")).status_code == 401


@pytest.mark.parametrize("name", ["", " n1", "n1/../x", "-n1", "n1.", "n" * 254, "nöde", "n1\n", 7, None, ["n1"]])
def test_a_name_that_no_node_can_have_is_422_and_costs_no_use(client, name):
    answer = enroll(client, name, bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR))

    assert answer.status_code == 422
    assert answer.json()["field"] == "node"
    assert EnrollmentToken.objects.get().uses_left == 1
    assert not Node.objects.exists()


@pytest.mark.parametrize("name", ["a", "gpu-07.rack_3:1", "n" * 253])
def test_ordinary_names_are_fine(client, name):
    assert enroll(client, name, bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR)).status_code == 201


def test_too_much_to_read_is_413(client):
    answer = enroll(client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR), padding="x" * 70_000)

    assert answer.status_code == 413
