"""Whom a message of an incident names: those whom its reader may know."""

from datetime import time

import pytest

from fleetwatch.accounts.models import Identity, Organisation, User
from fleetwatch.accounts.selectors import organisation
from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.incidents.open_names import in_words
from fleetwatch.alerts.models import Incident
from fleetwatch.notify.models import Delivery
from tests.alerts import people
from tests.alerts.factories import a_rule, at, longer
from tests.alerts.test_announcing import run

pytestmark = pytest.mark.django_db
SOMEBODY = "Acknowledged by somebody of another team."


@pytest.fixture(autouse=True)
def _open_job():
    a_rule()
    people.app()
    people.route("unowned", people.webhook("unowned"))


@pytest.fixture
def ana() -> User:
    return people.person()


def shown(choice: str) -> None:
    organisation()
    Organisation.objects.update(others_shown=choice)


def acknowledged_by(user: User) -> str:
    """What the message says of it to whom it was told before."""
    people.idle_job()
    run(31)
    Incident.objects.update(state="acknowledged", acknowledged_by=user, acknowledged_at=at(32))
    run(33)
    return to_ana()


def to_ana() -> str:
    return Delivery.objects.filter(address="U0ANA").latest("pk").message["text"]


@pytest.mark.parametrize(
    ("choice", "says"), [("everything", "Acknowledged by Eve Ek."), ("teams", SOMEBODY)]
)
def test_an_engineer_is_told_who_it_was_where_others_are_shown(choice, says, ana):
    shown(choice)

    assert says in acknowledged_by(people.person("eve", name="Eve Ek"))


def test_under_pseudonyms_an_engineer_is_told_one(ana):
    shown("pseudonyms")

    text = acknowledged_by(people.person("eve", name="Eve Ek"))

    assert "Acknowledged by person " in text
    assert "Eve" not in text


@pytest.mark.parametrize("choice", ["teams", "pseudonyms"])
def test_colleagues_and_who_runs_the_fleet_are_named(choice, ana):
    shown(choice)
    bo = people.person("bo", name="Bo Berg")
    people.team("vision", ana, bo)
    olga = people.person("olga", name="Olga Om", role="operator")

    assert "Acknowledged by Bo Berg." in acknowledged_by(bo)
    Incident.objects.update(acknowledged_by=olga)
    run(34)
    assert "Acknowledged by Olga Om." in to_ana()


@pytest.mark.parametrize(
    ("route", "says"),
    [("team", "resolved by somebody of another team: a known one"),
     ("operators", "resolved by Eve Ek: a known one")],
)  # fmt: skip
def test_a_teams_channel_names_whom_the_team_may_know_an_operators_everybody(route, says):
    shown("teams")
    team = people.team("nlp")
    people.route(route, people.webhook(), of=team if route == "team" else None)
    people.idle_job()
    run(31)
    eve = people.person("eve", name="Eve Ek", role="operator")
    act(Incident.objects.get().pk, Action("resolve", "a known one"), by=eve, now=at(32))
    User.objects.update(role="engineer")

    run(33)

    assert says in Delivery.objects.latest("pk").message["summary"]


def test_jobs_of_two_teams_of_one_owner_are_told_apart():
    """The route of one team is not to read of the other's jobs."""
    people.route("team", people.webhook("nlp"), of=people.team("nlp"))
    people.route("team", people.webhook("vision"), of=people.team("vision"))
    people.idle_job()
    people.idle_job(key="slurm/della/2", index=1, team="vision")

    assert run(31) == [("nlp", "", "opened"), ("vision", "", "opened")]


def test_who_left_is_told_nothing_more(ana):
    people.idle_job()
    assert run(31) == [("app", "U0ANA", "opened")]
    User.objects.update(is_active=False)
    Incident.objects.update(state="acknowledged", acknowledged_by=ana)

    assert run(32) == []


def test_a_name_that_was_taken_back_hears_no_more_of_it_and_its_person_does(ana):
    """U0ANA is somebody else's: the end is told by the name that is ana's now."""
    people.idle_job()
    assert run(31) == [("app", "U0ANA", "opened")]
    Identity.objects.filter(name="U0ANA").delete()
    people.is_named(ana, "slack", "U0ANABEL")
    act(Incident.objects.get().pk, Action("resolve"), by=ana, now=at(32))

    assert run(33) == [("app", "U0ANABEL", "resolved")]


def test_what_was_kept_for_the_night_goes_to_the_name_that_is_theirs_in_the_morning(ana):
    people.prefers(ana, quiet_from=time(9), quiet_until=time(11))
    longer(people.idle_job(), 200)
    run(31)
    Identity.objects.filter(name="U0ANA").update(name="U0ANABEL")

    assert [(name, address) for name, address, _ in run(120)] == [("app", "U0ANABEL")]


def test_who_wants_to_hear_by_mail_from_now_on_still_hears_the_end_of_what_slack_told(ana):
    people.mail()
    people.idle_job()
    run(31)
    people.prefers(ana, way="email")
    act(Incident.objects.get().pk, Action("resolve"), by=ana, now=at(32))

    assert run(33) == [("app", "U0ANA", "resolved")]


def test_who_wants_to_hear_nothing_any_more_is_not_told_the_end_either(ana):
    people.idle_job()
    run(31)
    people.prefers(ana, way="none")
    act(Incident.objects.get().pk, Action("resolve"), by=ana, now=at(32))

    assert run(33) == []


def test_whom_it_was_given_to_hears_no_more_of_it_where_it_was_taken_back_and_is_not_theirs(ana):
    shown("teams")
    bo = people.person("bo", name="Bo Berg")
    people.idle_job()
    run(31)
    Incident.objects.update(assignee=bo)
    assert ("app", "U0BO", "opened") in run(32)
    Incident.objects.update(assignee=None)

    assert [place for _, place, _ in run(33)] == ["U0ANA"]


def test_names_stand_where_they_were_left_open_and_nowhere_in_what_people_typed(ana):
    text = "given to {person} by {by}: {by} said {person} is {person!r}"
    bo = User(username="{by}")

    assert in_words(text, by=ana, person=bo) == (
        "given to {by} by Ana Diaz: {by} said {person} is {person!r}"
    )
    assert in_words("acknowledged by {by}") == "acknowledged by somebody"
