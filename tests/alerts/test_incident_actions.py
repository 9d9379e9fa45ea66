"""What people may do about an incident, and what that leaves."""

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from fleetwatch.accounts.models import AuditEntry, Organisation, User
from fleetwatch.accounts.selectors import organisation
from fleetwatch.alerts.incidents.incident_actions import (
    KINDS,
    Action,
    act,
    act_on_all,
    actable,
)
from fleetwatch.alerts.incidents.muted_incidents import read_mutes
from fleetwatch.alerts.matchers import stored
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.alerts.selectors import timeline, view_of
from fleetwatch.lib.refusal import RefusedFieldError
from tests.alerts import people
from tests.alerts.factories import a_rule, an_incident, at
from tests.alerts.test_announcing import run

KEY = "slurm/della/1"
pytestmark = pytest.mark.django_db


@pytest.fixture
def ana() -> User:
    return people.person()


@pytest.fixture
def incident(ana) -> Incident:
    """Ana's, of a job that team nlp pays for."""
    return an_incident(a_rule(), KEY, opened_at=at(0), person=ana, team=people.team("nlp", ana))


def do(kind: str, incident: Incident, by: User, **fields) -> Incident:
    return act(incident.pk, Action(kind, **fields), by=by, now=at(10))


def said_of(incident: Incident) -> str:
    return view_of(incident).incident.resolution


def events(incident: Incident) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in timeline(incident)]


def test_acknowledged_by_its_owner_is_in_the_history_and_the_audit_log(incident, ana):
    after = do("ack", incident, ana)

    assert (after.state, after.acknowledged_at, after.acknowledged_by) == (
        "acknowledged",
        at(10),
        ana,
    )
    assert events(incident) == [("ack", "acknowledged by Ana Diaz")]
    entry = AuditEntry.objects.get(action="incident.ack")
    assert entry.subject == str(incident.pk)


def test_the_same_again_changes_nothing_and_is_written_once(incident, ana):
    do("ack", incident, ana)
    do("ack", incident, people.person("op", name="Olga", role="operator"))

    assert len(events(incident)) == 1
    assert Incident.objects.get().acknowledged_by == ana


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_stranger_can_do_nothing(incident, kind):
    stranger = people.person("eve", name="Eve")

    with pytest.raises(PermissionDenied):
        do(kind, incident, stranger, reason="because")

    incident.refresh_from_db()
    assert (incident.state, incident.muted, incident.verdict) == ("firing", "", "")
    assert (events(incident), Silence.objects.count()) == ([], 0)
    assert not AuditEntry.objects.filter(action__startswith="incident").exists()


def test_who_may(incident, ana):
    now = at(10)
    lead = people.person("lena", name="Lena", role="lead")
    other_lead = people.person("leo", name="Leo", role="lead")
    people.team("nlp", lead)
    people.team("vision", other_lead)
    operator = people.person("olga", name="Olga", role="operator")
    finance = people.person("fin", name="Fin", role="finance")
    colleague = people.person("cem", name="Cem")
    people.team("nlp", colleague)
    given = people.person("gil", name="Gil")
    incident.assignee = given
    incident.save()
    gone = people.person("gone", name="Gone", is_active=False)

    everybody = (ana, lead, operator, given, other_lead, finance, colleague, gone)
    may = [user.username for user in everybody if actable(user, [incident], now=now)]

    assert may == ["ana", "lena", "olga", "gil"]


def test_a_snooze_ends_at_the_moment_that_is_named_or_after_four_hours(incident, ana):
    named = do("snooze", incident, ana, until=at(70))
    assert (named.snoozed_until, named.muted) == (at(70), "snoozed until 20 Nov 2026, 10:10 UTC")

    usual = do("snooze", incident, ana)
    assert usual.snoozed_until == at(10 + 240)


def test_a_snooze_is_taken_back_once_and_then_there_is_none(incident, ana):
    do("snooze", incident, ana)

    after = [do("unsnooze", incident, ana) for _ in range(2)]

    assert [each.snoozed_until for each in after] == [None, None]
    assert events(incident) == [
        ("snooze", "snoozed until 20 Nov 2026, 13:10 UTC by Ana Diaz"),
        ("unsnooze", "snooze taken back by Ana Diaz"),
    ]


def test_a_snooze_that_is_over_is_not_taken_back(incident, ana):
    do("snooze", incident, ana, until=at(11))

    act(incident.pk, Action("unsnooze"), by=ana, now=at(11))

    assert [kind for kind, _ in events(incident)] == ["snooze"]


@pytest.mark.parametrize("days", [-1, 0, 30.01, 93])
def test_a_snooze_that_does_not_end_soon_is_refused(incident, ana, days):
    with pytest.raises(RefusedFieldError) as refused:
        do("snooze", incident, ana, until=at(10) + timedelta(days=days))

    assert refused.value.field == "until"


def test_an_operator_may_snooze_for_longer(incident):
    operator = people.person("olga", name="Olga", role="operator")

    assert do("snooze", incident, operator, until=at(10) + timedelta(days=92)).snoozed_until


def test_resolved_by_hand_it_is_told_to_nobody_any_more_while_the_breach_goes_on(incident, ana):
    after = do("resolve", incident, ana, reason="a known one")

    assert (after.state, said_of(after)) == ("resolved", "resolved by Ana Diaz: a known one")
    assert after.ended_ms is None
    with pytest.raises(RefusedFieldError, match="over already"):
        do("ack", incident, ana)


def test_fixed_confirms_and_resolves(incident, ana):
    after = do("fixed", incident, ana)

    assert (after.verdict, after.state, said_of(after)) == (
        "confirmed",
        "resolved",
        "fixed by Ana Diaz",
    )
    do("fixed", incident, ana)
    assert len(events(incident)) == 1


def test_not_waste_needs_a_reason_and_mutes_this_subject_until_a_day(incident, ana):
    with pytest.raises(RefusedFieldError) as refused:
        do("not_waste", incident, ana, reason=" ")
    assert refused.value.field == "reason"

    after = do("not_waste", incident, ana, reason="a server that waits", until=at(10 + 60))

    assert after.verdict == "rejected"
    silence = Silence.objects.get()
    assert (silence.kind, silence.ends_at, silence.by) == ("justification", at(70), ana)
    [mute] = read_mutes(at(10), at(10))
    assert mute.holds({"rule": ("Job idle",), "subject": (KEY,)}, at(10))
    assert not mute.holds({"rule": ("Job idle",), "subject": ("slurm/della/2",)}, at(10))
    assert not mute.holds({"rule": ("Hung",), "subject": (KEY,)}, at(10))


@pytest.mark.parametrize("days", [30.01, 60])
def test_a_justification_lasts_thirty_days_at_most_whoever_gives_it(incident, days):
    operator = people.person("olga", name="Olga", role="operator")

    with pytest.raises(RefusedFieldError):
        do("not_waste", incident, operator, reason="x", until=at(10) + timedelta(days=days))


def test_a_hostile_subject_justifies_itself_alone(ana):
    hostile = an_incident(a_rule(), "slurm/della/*", opened_at=at(0), person=ana)

    do("not_waste", hostile, ana, reason="mine")

    [_, subject] = stored(Silence.objects.get().matchers)
    assert subject.matches({"subject": ("slurm/della/*",)})
    assert not subject.matches({"subject": (KEY,)})


def test_the_longest_subject_is_justified_though_each_of_its_characters_is_escaped(ana):
    longest = "*" * 410
    hostile = an_incident(a_rule(), longest, opened_at=at(0), person=ana)

    do("not_waste", hostile, ana, reason="mine")

    [_, subject] = stored(Silence.objects.get().matchers)
    assert subject.matches({"subject": (longest,)})
    assert not subject.matches({"subject": (longest + "x",)})


def test_taking_over_and_giving_to_a_colleague(incident, ana):
    colleague = people.person("cem", name="Cem Kaya")
    people.team("nlp", colleague)

    assert do("assign", incident, ana, assignee=ana).assignee == ana
    assert do("assign", incident, ana, assignee=colleague).assignee == colleague
    assert do("assign", incident, colleague, assignee=None).assignee is None
    assert [text for _, text in events(incident)] == [
        "given to Ana Diaz by Ana Diaz",
        "given to Cem Kaya by Ana Diaz",
        "given to nobody by Cem Kaya",
    ]


def test_an_engineer_gives_to_colleagues_alone(incident, ana):
    with pytest.raises(RefusedFieldError) as refused:
        do("assign", incident, ana, assignee=people.person("eve", name="Eve"))

    assert refused.value.field == "assignee"


def test_nobody_is_given_what_he_may_not_see(incident):
    organisation()
    Organisation.objects.update(others_shown="teams")
    operator = people.person("olga", name="Olga", role="operator")

    with pytest.raises(RefusedFieldError, match="may not see"):
        do("assign", incident, operator, assignee=people.person("eve", name="Eve"))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "scancel"}, "action"),
        ({"kind": "ack", "reason": "x" * 301}, "reason"),
        ({"kind": "ack", "reason": "\x00"}, "reason"),
    ],
)
def test_what_is_no_action_is_refused_with_its_field(incident, ana, fields, field):
    with pytest.raises(RefusedFieldError) as refused:
        act(incident.pk, Action(**fields), by=ana, now=at(10))

    assert refused.value.field == field


def test_a_click_on_a_group_is_all_or_nothing(ana):
    rule = a_rule()
    hers = an_incident(rule, "slurm/della/1", opened_at=at(0), person=ana)
    not_hers = an_incident(rule, "slurm/della/2", opened_at=at(0))

    with pytest.raises(PermissionDenied):
        act_on_all([hers, not_hers], Action("ack"), by=ana, now=at(10))

    assert set(Incident.objects.values_list("state", flat=True)) == {"firing"}


def test_what_people_did_is_seen_in_the_message(ana):
    a_rule()
    people.app()
    people.route("operators", people.webhook("ops"))
    people.idle_job()
    run(31)
    act(Incident.objects.get().pk, Action("fixed"), by=ana, now=at(32))

    assert run(33) == [("app", "U0ANA", "resolved")]


@pytest.mark.parametrize("kind", ["ack", "snooze", "resolve", "fixed"])
def test_nothing_is_said_of_what_has_not_fired(incident, ana, kind):
    Incident.objects.update(state="pending", fired_ms=None)

    with pytest.raises(RefusedFieldError, match="not fired"):
        do(kind, incident, ana)

    assert Incident.objects.get().state == "pending"
