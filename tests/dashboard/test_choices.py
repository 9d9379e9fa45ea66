"""What an address asks for and nobody knows is said on the page, which shows what it shows without
it.
"""

from html import unescape

import pytest

from fleetwatch.accounts.models import Team
from tests.dashboard import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture
def small(admin):
    fleet.make(nodes=1, gpus=2, hours=4)
    return admin


@pytest.mark.parametrize(
    ("address", "without", "sentence"),
    [
        (
            "/waste?group_by=colour",
            "/waste",
            (
                "There is no `group_by` 'colour'; there are team, project, cost_centre, user, job,"
                " node, gpu_model, cause."
            ),
        ),
        (
            "/waste?group_by=user&free=maybe",
            "/waste?group_by=user",
            "There is no `free` 'maybe'; there are own,",
        ),
        (
            "/fleet?metric=hum",
            "/fleet",
            "There is no `metric` 'hum'; there are state, util, power, memory.",
        ),
        ("/jobs?sort=name", "/jobs", "There is no `sort` 'name'; there are waste, cost,"),
        (
            "/findings?status=lost",
            "/findings",
            "There is no `status` 'lost'; there are open, accepted,",
        ),
        (
            "/findings?cause=ghosts",
            "/findings",
            "There is no `cause` 'ghosts'; there are no_telemetry",
        ),
        ("/findings?team=ghosts", "/findings", "There is no `team` 'ghosts'; there are nlp."),
        ("/findings?assignee=ghost", "/findings", "There is no `assignee` 'ghost'; there are ann."),
        (
            "/explain?state=busy",
            "/explain",
            "There is no `state` 'busy'; there are useful, underused,",
        ),
        (
            "/explain?gpu=GPU-node-001-0&state=busy",
            "/explain?gpu=GPU-node-001-0",
            "There is no `state` 'busy'; there are useful,",
        ),
    ],
)
def test_what_is_not_known_is_said_and_the_default_shown(small, address, without, sentence):
    Team.objects.exclude(slug="nlp").delete()
    Team.objects.get_or_create(slug="nlp")

    answer = small.get(address)

    assert answer.status_code == 200
    assert sentence in unescape(answer.content.decode())
    assert "There is no" not in small.get(without).content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "/waste?group_by=user&free=even",
        "/waste?group_by=job&free=even",
        "/waste?group_by=",
        "/findings?cause=undetermined",
    ],
)
def test_what_is_known_or_has_no_say_is_taken_without_a_word(small, address):
    assert "There is no" not in small.get(address).content.decode()


def test_what_is_asked_for_is_told_in_part_and_as_text(small):
    page = small.get("/waste?group_by=" + "<b>" * 50).content.decode()

    assert "There is no `group_by`" in page
    assert "<b><b>" not in page
    assert page.count("&lt;b&gt;") == 20


def test_a_chart_in_a_form_that_there_is_not_is_not_found(small):
    assert small.get("/charts/spend?as=pdf").status_code == 404
