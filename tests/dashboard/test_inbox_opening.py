"""On whose findings the savings inbox opens."""

import pytest
from django.test import Client

from fleetwatch.accounts.models import Identity, Membership, Team, User
from fleetwatch.lib.intervals import to_ms
from tests.dashboard import factories
from tests.diagnosis.told import DAY, NOW, capacity, cause, finding, gpu, job, place, rate
from tests.markup import in_text, tight

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_frozen")]


@pytest.fixture
def wasted() -> None:
    """A finding of vera's and one of bob's, and one of a machine."""
    rate()
    for number, user in enumerate(("vera", "bob")):
        of = job(f"slurm/della/{number}", user=user, end_ms=to_ms(NOW))
        cause(of=of, on=gpu(number))
        finding(of, last_ms=to_ms(NOW))
    capacity("gpu_fault", on=gpu(3), start=NOW - DAY)
    place("gpu_fault", node=gpu(3).node)


def reader(role: str, *names: str) -> Client:
    user: User = factories.user(role=role, username="vera-1")
    for name in names:
        Identity.objects.create(
            user=user, system="unix", name=name, source="admin", created_at=NOW, confirmed_at=NOW
        )
    client = Client()
    client.force_login(user)
    return client


def test_an_engineers_inbox_opens_on_the_own_jobs_in_the_period_that_was_asked_for(wasted):
    answer = reader("engineer", "vera").get("/findings?range=24h")

    assert (answer.status_code, answer.url) == (302, "/findings?range=24h&user=vera")


def lead(*teams: str) -> Client:
    user: User = factories.user(role="lead", username="vera-1")
    for name in teams:
        team = Team.objects.create(slug=name, name=name)
        Membership.objects.create(user=user, team=team, valid_from=NOW - DAY)
    client = Client()
    client.force_login(user)
    return client


def test_a_leads_inbox_opens_on_the_team_with_everybodys_a_click_away(wasted):
    of_nlp = lead("nlp")
    answer = of_nlp.get("/findings?range=24h")

    assert (answer.status_code, answer.url) == (302, "/findings?range=24h&team=nlp")
    shown = tight(of_nlp.get(answer.url).content.decode())
    every = shown.partition(">Everybody’s<")[0].rpartition("href=")[2]
    assert "team=" not in every
    assert of_nlp.get("/findings" + every.split('"')[1].replace("&amp;", "&")).status_code == 200


@pytest.mark.parametrize("teams", [[], ["nlp", "vision"]])
def test_who_leads_no_team_or_several_is_led_nowhere(wasted, teams):
    assert lead(*teams).get("/findings").status_code == 200


@pytest.mark.parametrize(
    ("role", "names", "address"),
    [
        ("operator", ["vera"], "/findings"),
        ("engineer", [], "/findings"),
        ("engineer", ["vera", "vera2"], "/findings"),
        ("engineer", ["vera"], "/findings?status=open"),
        ("engineer", ["vera"], "/findings?team=nlp"),
        ("engineer", ["vera"], "/findings?user=bob"),
    ],
)
def test_who_asks_for_something_or_has_not_one_name_is_led_nowhere(wasted, role, names, address):
    assert reader(role, *names).get(address).status_code == 200


def test_an_engineer_comes_from_the_own_to_everybodys_with_the_machines_folded(wasted):
    own = reader("engineer", "vera")
    mine = tight(own.get("/findings", follow=True).content.decode())
    assert "user=vera" not in mine.partition(">Everybody’s<")[0].rpartition("href=")[2]
    assert "status=open" in mine.partition(">Everybody’s<")[0].rpartition("href=")[2]

    every = tight(own.get("/findings?status=open").content.decode())

    assert "2 patterns of waste" in in_text(every)
    assert "<details><summary>1 finding</summary>" in every


def test_to_who_runs_the_fleet_machines_stand_open(wasted):
    page = tight(reader("operator", "vera").get("/findings").content.decode())

    assert "Machines and queue" in page
    assert "<summary>1 finding</summary>" not in page


def test_lost_capacity_is_a_figure_only_where_there_is_some(wasted):
    operator = reader("operator", "vera")

    lost = operator.get("/findings")
    none = operator.get("/findings?user=vera")

    assert "<dt>Capacity</dt>" in tight(lost.content.decode())
    assert lost.context["capacity"].high_ms
    assert "<dt>Capacity</dt>" not in tight(none.content.decode())
