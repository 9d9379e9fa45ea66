"""POST /api/v1/enroll: an enrolment token becomes a node's own token."""

from datetime import timedelta

import pytest
from django.db import IntegrityError

from fleetwatch.ingest.models import AgentToken, Enrollment, EnrollmentToken
from fleetwatch.ingest.selectors import agent_tokens, newest_enrollments
from fleetwatch.ingest.tokens import (
    create_enrollment_token,
    revoke_agent_token,
    revoke_enrollment_token,
)
from fleetwatch.inventory.models import Node
from tests.ingest.factories import NOW, payload, post, token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
HOUR = timedelta(hours=1)


def enroll(client, node, *, bearer, address="10.1.2.3", **keys):
    return client.post(
        "/api/v1/enroll",
        {"node": node, **keys},
        content_type="application/json",
        headers={"authorization": f"Bearer {bearer}"},
        REMOTE_ADDR=address,
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

    assert (
        enroll(client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR)).status_code
        == 201
    )


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


@pytest.mark.parametrize(
    "name", ["", " n1", "n1/../x", "-n1", "n1.", "n" * 254, "nöde", "n1\n", 7, None, ["n1"]]
)
def test_a_name_that_no_node_can_have_is_422_and_costs_no_use(client, name):
    answer = enroll(client, name, bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR))

    assert answer.status_code == 422
    assert answer.json()["field"] == "node"
    assert EnrollmentToken.objects.get().uses_left == 1
    assert not Node.objects.exists()


@pytest.mark.parametrize(("first", "second"), [("gpu-07", "GPU-07"), ("GPU-07", "gpu-07")])
def test_a_second_node_whose_name_differs_only_in_case_is_422_and_costs_no_use(
    client, first, second
):
    bearer = create_enrollment_token(NOW, uses=2, ttl=HOUR)
    enroll(client, first, bearer=bearer)

    answer = enroll(client, second, bearer=bearer)

    assert (answer.status_code, answer.json()["field"]) == (422, "node")
    assert f"there is a node {first}" in answer.json()["error"]
    assert EnrollmentToken.objects.get().uses_left == 1
    assert [node.name for node in Node.objects.all()] == [first]


@pytest.mark.parametrize("name", ["a", "gpu-07.rack_3:1", "n" * 253])
def test_ordinary_names_are_fine(client, name):
    assert (
        enroll(client, name, bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR)).status_code
        == 201
    )


def test_too_much_to_read_is_413(client):
    answer = enroll(
        client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR), padding="x" * 70_000
    )

    assert answer.status_code == 413


def enrolled(client, bearer, *addresses) -> list[tuple[str, str, bool]]:
    """Node, network and whether it was new, of one enrolment after another from these addresses."""
    for number, address in enumerate(addresses):
        assert enroll(client, f"n{number}", bearer=bearer, address=address).status_code == 201
    found = Enrollment.objects.order_by("id").values_list(
        "agent_token__node__name", "network", "is_new_network"
    )
    return list(found)


def test_each_use_is_kept_with_node_address_and_time(client):
    enroll(
        client,
        "n1",
        bearer=create_enrollment_token(NOW, uses=2, ttl=HOUR),
        address="::ffff:10.1.2.3",
    )

    use = Enrollment.objects.get()
    assert (use.agent_token.node.name, use.address, use.network, use.at) == (
        "n1",
        "10.1.2.3",
        "10.1.2.0/24",
        NOW,
    )
    assert use.token == EnrollmentToken.objects.get()
    assert use.agent_token == AgentToken.objects.get()


def test_a_use_from_a_network_where_nobody_was_is_marked_once(client):
    bearer = create_enrollment_token(NOW, uses=9, ttl=HOUR)

    assert enrolled(
        client,
        bearer,
        "10.1.2.3",
        "10.1.2.255",
        "10.1.3.0",
        "10.1.3.1",
        "2001:db8:1::1",
        "2001:db8:1:ffff::1",
        "2001:db8:2::1",
        "",
    ) == [
        ("n0", "10.1.2.0/24", False),  # the first of all: there is nothing to be unlike
        ("n1", "10.1.2.0/24", False),
        ("n2", "10.1.3.0/24", True),
        ("n3", "10.1.3.0/24", False),
        ("n4", "2001:db8:1::/48", True),
        ("n5", "2001:db8:1::/48", False),
        ("n6", "2001:db8:2::/48", True),
        ("n7", "", True),
    ]


def test_a_stolen_token_is_marked_at_its_first_use_where_other_tokens_were_used_before(client):
    enroll(client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR), address="10.1.2.3")

    enroll(
        client, "n2", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR), address="198.51.100.7"
    )

    assert Enrollment.objects.get(agent_token__node__name="n2").is_new_network


def test_an_address_that_is_only_claimed_is_not_kept(client, settings):
    bearer = create_enrollment_token(NOW, uses=2, ttl=HOUR)
    headers = {"authorization": f"Bearer {bearer}", "x-forwarded-for": "10.9.9.9, 198.51.100.7"}

    client.post(
        "/api/v1/enroll",
        {"node": "n1"},
        content_type="application/json",
        headers=headers,
        REMOTE_ADDR="10.1.2.3",
    )
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    client.post(
        "/api/v1/enroll",
        {"node": "n2"},
        content_type="application/json",
        headers=headers,
        REMOTE_ADDR="10.1.2.3",
    )

    assert list(Enrollment.objects.order_by("id").values_list("address", flat=True)) == [
        "10.1.2.3",
        "198.51.100.7",
    ]


def test_a_refused_enrolment_is_no_use(client):
    token("n1")

    enroll(client, "n1", bearer=create_enrollment_token(NOW, uses=1, ttl=HOUR))

    assert not Enrollment.objects.exists()


@pytest.mark.parametrize("uses", [1, 1000])
def test_a_token_lets_in_a_thousand_nodes_at_most(uses):
    create_enrollment_token(NOW, uses=uses, ttl=HOUR)

    assert EnrollmentToken.objects.get().uses_left == uses
    with pytest.raises(ValueError, match="uses: expected 1 to 1000, not 1001"):
        create_enrollment_token(NOW, uses=1001, ttl=HOUR)
    with pytest.raises(IntegrityError, match="at_most_1000_uses"):
        EnrollmentToken.objects.update(uses_left=1001)


def test_the_newest_enrolments_are_read_with_their_nodes_at_once(client, django_assert_num_queries):
    enrolled(
        client, create_enrollment_token(NOW, uses=3, ttl=HOUR), "10.1.2.3", "10.1.2.4", "10.1.2.5"
    )
    token("n9")

    with django_assert_num_queries(1):
        newest = newest_enrollments(agent_tokens(), 2)
        shown = [(each.agent_token.node.name, each.token.hint[:3]) for each in newest]

    assert shown == [("n2", "fw_"), ("n1", "fw_")]
