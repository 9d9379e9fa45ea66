"""Whose job it is decides about a finding, who leads the team, whom it was given to, and operators;
everybody says whether it is right.
"""

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.people import Name, NewPerson, create_person, deactivate, give_name, leave
from fleetwatch.diagnosis.findings.deciding import (
    KINDS,
    LONGEST_OWN_SNOOZE,
    Decision,
    decidable,
    decide,
)
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.lib.refusal import RefusedFieldError
from tests.diagnosis.told import DAY, NOW, finding

pytestmark = pytest.mark.django_db

DECISIONS = sorted(KINDS.keys() - {"confirm", "reject"})


@pytest.fixture
def nlp():
    return Team.objects.create(slug="nlp", name="NLP")


@pytest.fixture
def theirs(nlp):
    """A finding of a job that bo holds on the cluster alps, whose time is nlp's."""
    one = finding()
    job = one.its_job
    job.scheduler, job.cluster, job.user, job.team = "slurm", "alps", "bo", nlp
    job.save()
    return one


def person(name: str, role: str = "engineer", team: Team | None = None) -> User:
    return create_person(NewPerson(name, role=role, team=team), now=NOW - DAY)


def named(user: User, name: str, cluster: str = "", system: str = "unix") -> User:
    give_name(user, Name(system, name, cluster), source=Identity.Source.ADMIN, now=NOW - DAY)
    return user


def may(user: User) -> bool:
    return bool(decidable(user, [Finding.objects.select_related("job").get()], now=NOW))


@pytest.mark.parametrize(
    ("system", "cluster", "is_owner"),
    [
        ("unix", "alps", True),
        ("unix", "", True),
        ("unix", "jura", False),
        ("kubernetes", "alps", False),
        ("email", "alps", False),
    ],
)
def test_whose_job_it_is_decides_by_the_name_on_its_cluster(theirs, system, cluster, is_owner):
    assert may(named(person("ann"), "bo", cluster, system)) is is_owner


def test_a_claim_that_nobody_confirmed_is_no_right(theirs):
    ann = person("ann")
    give_name(ann, Name("unix", "bo"), source=Identity.Source.CLAIM, now=NOW)

    assert not may(ann)


def test_a_user_name_here_is_no_name_there(theirs):
    assert not may(person("bo"))


def test_a_lead_decides_about_the_teams_as_long_as_in_it(theirs, nlp):
    lead, member = person("lea", "lead", nlp), person("mo", team=nlp)
    assert (may(lead), may(member)) == (True, False)

    leave(lead, nlp, at=NOW - timedelta(seconds=1))

    assert not may(lead)


@pytest.mark.parametrize(
    ("role", "may_decide"),
    [("engineer", False), ("lead", False), ("finance", False), ("operator", True), ("admin", True)],
)
def test_of_the_others_who_runs_the_fleet_decides(theirs, role, may_decide):
    assert may(person("ann", role)) is may_decide


def test_whom_it_was_given_to_decides_until_it_is_given_on(theirs):
    ann, root = person("ann"), person("root", "admin")
    decide(theirs.pk, Decision("assign", assignee=ann), by=root, now=NOW)
    assert may(ann)

    decide(theirs.pk, Decision("assign"), by=root, now=NOW)

    assert not may(ann)


@pytest.mark.parametrize("action", DECISIONS)
def test_a_colleague_is_refused_each_decision_and_nothing_is_written(theirs, action):
    wanted = Decision(action, "because", until=NOW + DAY)

    with pytest.raises(PermissionDenied, match="whose job it is"):
        decide(theirs.pk, wanted, by=person("ann"), now=NOW)

    assert (Finding.objects.get().status, Said.objects.count()) == ("open", 0)


@pytest.mark.parametrize("action", sorted(KINDS))
def test_the_owner_takes_each_decision_and_it_is_in_the_history(theirs, action):
    bo = named(person("bo"), "bo")

    decide(theirs.pk, Decision(action, "because", until=NOW + DAY, assignee=bo), by=bo, now=NOW)

    assert Said.objects.get().by == bo


@pytest.mark.parametrize("action", ["confirm", "reject"])
def test_everybody_says_whether_it_is_right(theirs, action):
    decide(theirs.pk, Decision(action, "it was compiling"), by=person("ann"), now=NOW)

    assert Said.objects.get().kind == KINDS[action]


def test_an_owner_snoozes_for_thirty_days_at_most_and_an_operator_longer(theirs):
    bo, operator = named(person("bo"), "bo"), person("op", "operator")
    too_long = Decision("snooze", until=NOW + LONGEST_OWN_SNOOZE + timedelta(seconds=1))

    decide(theirs.pk, Decision("snooze", until=NOW + LONGEST_OWN_SNOOZE), by=bo, now=NOW)
    with pytest.raises(RefusedFieldError, match="at most 30 days"):
        decide(theirs.pk, too_long, by=bo, now=NOW)
    decide(theirs.pk, too_long, by=operator, now=NOW)

    assert Finding.objects.get().snoozed_until == too_long.until


def test_an_owner_gives_it_to_a_colleague_of_the_own_team_alone(theirs, nlp):
    bo, mo, ann = named(person("bo", team=nlp), "bo"), person("mo", team=nlp), person("ann")

    decide(theirs.pk, Decision("assign", assignee=mo), by=bo, now=NOW)
    with pytest.raises(RefusedFieldError, match="in no team of yours"):
        decide(theirs.pk, Decision("assign", assignee=ann), by=bo, now=NOW)

    assert Finding.objects.get().assignee == mo


def test_who_left_decides_nothing(theirs):
    bo, _ = named(person("bo", "operator"), "bo"), person("root", "admin")
    deactivate(bo, now=NOW)

    assert not may(User.objects.get(pk=bo.pk))


def test_a_finding_of_a_machine_is_for_who_runs_the_fleet(theirs, nlp):
    Finding.objects.update(job=None, cluster="alps")

    assert not may(named(person("lea", "lead", nlp), "bo"))
    assert may(person("op", "operator"))
