"""What an address asks for and nobody knows is said on the page, which shows what it shows without
it.
"""

import re
from html import unescape

import pytest
import time_machine

from fleetwatch.accounts.models import Team
from fleetwatch.dashboard.views import waste
from tests.dashboard import factories, fleet
from tests.dashboard.factories import NOW
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def _small(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        with time_machine.travel(NOW, tick=False):
            fleet.make(nodes=1, gpus=2, hours=4)
        yield


@pytest.fixture
def small(_small, admin):
    return admin


@pytest.mark.parametrize(
    ("address", "without", "sentence"),
    [
        (
            "/waste?group_by=colour",
            "/waste",
            (
                "There is no grouping by 'colour'; there are Team, Project, Cost centre, User, Job,"
                " Node, GPU model, Cause."
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
            "There is no `metric` 'hum'; there are state, util, power, memory, cost,",
        ),
        ("/jobs?sort=size", "/jobs", "There is no `sort` 'size'; there are now, waste, cost,"),
        ("/jobs?state=busy", "/jobs", "There is no `state` 'busy'; there are useful, unverified,"),
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
        ("/settings/channels?edit=7", "/settings/channels", "There is no `edit` '7'."),
        (
            "/pricing/calculator?gpu_model=Voodoo2",
            "/pricing/calculator",
            "There is no `gpu_model` 'Voodoo2'; there are H100 SXM.",
        ),
        (
            "/explain?state=busy",
            "/explain",
            "There is no `state` 'busy'; there are useful, unverified,",
        ),
        (
            "/explain?gpu=GPU-node-001-0&state=busy",
            "/explain?gpu=GPU-node-001-0",
            "There is no `state` 'busy'; there are useful,",
        ),
    ],
)
def test_what_is_not_known_is_said_once_and_the_default_shown(small, address, without, sentence):
    Team.objects.exclude(slug="nlp").delete()
    Team.objects.get_or_create(slug="nlp")

    answer = small.get(address)

    assert answer.status_code == 200
    assert unescape(answer.content.decode()).count(sentence) == 1
    assert "There is no" not in small.get(without).content.decode()


@pytest.mark.parametrize(
    "address",
    [
        "/waste?group_by=user&free=even",
        "/waste?group_by=job&free=own",
        "/waste?group_by=",
        "/findings?cause=undetermined",
    ],
)
def test_what_is_known_or_has_no_say_is_taken_without_a_word(small, address):
    assert "There is no" not in small.get(address).content.decode()


@pytest.mark.parametrize("page", ["/waste", "/costs"])
def test_a_grouping_by_model_is_one_by_gpu_model(small, page):
    answer = small.get(f"{page}?group_by=model")

    assert "There is no" not in answer.content.decode()
    assert answer.content.decode().count('aria-current="true"') >= 1
    shown = answer.context.get("group_by") or answer.context["seen"].group_by
    assert shown == "gpu_model"


@pytest.mark.parametrize("free", ["even", "proportional", "maybe"])
def test_free_capacity_that_is_spread_over_nothing_is_said(small, free):
    page = unescape(small.get(f"/waste?group_by=job&free={free}").content.decode())

    sentence = "`free` is for lines by team, project, cost_centre, user: by job it is apart."
    assert sentence in page
    # the tabs of other groups lead to no such address
    tabs = unescape(small.get("/waste?group_by=team&free=even").content.decode())
    assert "?group_by=user&free=even" in tabs.replace(
        "free=even&group_by=user", "group_by=user&free=even"
    )
    assert "group_by=job&free" not in tabs
    assert "free=even&group_by=job" not in tabs


@pytest.mark.parametrize("page", ["/jobs", "/findings"])
@pytest.mark.parametrize("after", ["x", "1", "~", "1~2~3~4", "9" * 30])
def test_a_cursor_that_leads_nowhere_is_said_above_the_first_page(small, page, after):
    answer = unescape(small.get(f"{page}?after={after}").content.decode())

    assert f"There is no page after '{after}': this is the first one." in answer
    assert "There is no page" not in small.get(f"{page}?after=").content.decode()


def test_a_cursor_of_ours_leads_on_without_a_word(small):
    assert "There is no page" not in small.get("/jobs?after=7000000~42").content.decode()


def test_what_is_asked_for_is_told_in_part_and_as_text(small):
    page = small.get("/waste?group_by=" + "<b>" * 50).content.decode()

    assert "There is no grouping by" in page
    assert "<b><b>" not in page
    assert page.count("&lt;b&gt;") == 100  # in the sentence, and in four forms that keep it


def test_a_chart_in_a_form_that_there_is_not_is_not_found(small):
    assert small.get("/charts/spend?as=pdf").status_code == 404


@pytest.mark.parametrize("group_by", ["job", "node"])
def test_waste_by_job_and_by_node_has_pages_whose_others_are_counted(small, monkeypatch, group_by):
    monkeypatch.setattr(waste, "ON_PAGE", 1)
    for number in (1, 2, 3):
        gpu = factories.gpu(factories.node(f"paged-{number}"))
        job = factories.job(f"slurm/della/paged-{number}")
        factories.entry(gpu, hours_ago=number, held_by=job).save()

    first = small.get(f"/waste?group_by={group_by}")
    link = re.search(r'href="([^"]*after=[^"]*)"\s*>Next', unescape(first.content.decode()))
    second = small.get(f"/waste{link[1]}")

    assert f"other {group_by}s" in first.content.decode()
    keys = [answer.context["lines"][0].key for answer in (first, second)]
    assert len(set(keys)) == 2
    assert second.context["rest"].groups == first.context["rest"].groups
    assert "First page" in second.content.decode()
