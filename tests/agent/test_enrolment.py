"""The install line's token lets a node in once; after that the node speaks with its own."""

import stat

import pytest

from agent import wire
from agent.sending.sender import Verdict
from tests.agent.factories import enrolling, mapping

REFUSED = (401, {}, {"error": "unknown, revoked or expired token", "field": ""})
LET_IN = (201, {}, {"node": "gpu-07", "token": "fw_own"})
HAS_ONE = (409, {}, {"error": "gpu-07 has a live token; revoke it first", "field": "node"})
PAYLOAD = wire.compress(wire.encode(wire.parse(mapping())))


@pytest.fixture
def start(hub, tmp_path):
    """Starts the agent's sender with a token, as each start of the service does."""

    def started(token="fw_enrol", node="gpu-07"):
        return enrolling(hub, tmp_path, token=token, node=node)

    return started


def said(hub):
    return [(path, headers["Authorization"]) for path, headers, _ in hub.requests]


BATCH, ENROLL = "/api/v1/batches", "/api/v1/enroll"


def test_an_enrolment_token_is_exchanged_and_the_batch_goes_with_the_nodes_own(
    hub, start, tmp_path
):
    hub.answers = [REFUSED, LET_IN]

    outcome = start().send(PAYLOAD)

    assert outcome.verdict is Verdict.ACCEPTED
    assert said(hub) == [
        (BATCH, "Bearer fw_enrol"),
        (ENROLL, "Bearer fw_enrol"),
        (BATCH, "Bearer fw_own"),
    ]
    assert hub.requests[1][2] == b'{"node": "gpu-07"}'
    (kept,) = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_after_a_restart_the_own_token_is_used_at_once(hub, start):
    hub.answers = [REFUSED, LET_IN]
    start().send(PAYLOAD)
    hub.requests.clear()

    start().send(PAYLOAD)

    assert said(hub) == [(BATCH, "Bearer fw_own")]


def test_a_revoked_node_does_not_let_itself_in_again_with_the_same_token(hub, start):
    hub.answers = [REFUSED, LET_IN]
    start().send(PAYLOAD)
    hub.requests.clear()
    hub.answers = [REFUSED]

    assert start().send(PAYLOAD).is_token_refused
    assert said(hub) == [(BATCH, "Bearer fw_own")]


def test_a_new_install_line_on_a_node_that_is_in_keeps_its_token(hub, start):
    hub.answers = [REFUSED, LET_IN]
    start().send(PAYLOAD)
    hub.requests.clear()
    hub.answers = [REFUSED, HAS_ONE]

    assert start(token="fw_second").send(PAYLOAD).verdict is Verdict.ACCEPTED
    assert said(hub)[-1] == (BATCH, "Bearer fw_own")


@pytest.mark.parametrize(
    "answer", [REFUSED, HAS_ONE, (503, {}, {}), (201, {}, {"token": 7}), (200, {}, b"<html>")]
)
def test_a_token_that_lets_nobody_in_is_refused_as_before_and_nothing_is_kept(
    hub, start, tmp_path, answer
):
    hub.answers = [REFUSED, answer]

    assert start().send(PAYLOAD).is_token_refused
    assert not (tmp_path / "state").exists()


def test_another_node_of_the_same_host_has_a_token_of_its_own(hub, start):
    hub.answers = [REFUSED, LET_IN]
    start().send(PAYLOAD)
    hub.requests.clear()
    hub.answers = [REFUSED, (201, {}, {"token": "fw_other"})]

    start(node="recorded-1").send(PAYLOAD)

    assert said(hub)[-1] == (BATCH, "Bearer fw_other")
