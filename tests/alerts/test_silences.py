"""Who may set what, and what is refused: silences, routes, preferences."""

from datetime import time

import pytest
from django.core.exceptions import PermissionDenied

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.incidents.muted_incidents import read_mutes
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.messaging.preferences import PreferenceTerms, set_preference
from fleetwatch.alerts.messaging.team_routes import set_route
from fleetwatch.alerts.models import Preference, Route, Silence
from fleetwatch.alerts.rule_copies import rename_rule
from fleetwatch.alerts.silences import SilenceTerms, add_silence, end_silence, endable
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.refusal import RefusedFieldError
from tests.alerts import people
from tests.alerts.factories import a_rule, an_incident, at

pytestmark = pytest.mark.django_db
ON_NODE = (Matcher("node", ("gpu-01",)),)
OF_NLP = (Matcher("team", ("nlp",)),)


@pytest.fixture
def olga() -> User:
    return people.person("olga", name="Olga", role="operator")


@pytest.fixture
def lena() -> User:
    lead = people.person("lena", name="Lena", role="lead")
    people.team("nlp", lead)
    return lead


def terms(**fields) -> SilenceTerms:
    usual = {"kind": "silence", "matchers": ON_NODE, "starts_at": at(0), "ends_at": at(60)}
    return SilenceTerms(**(usual | {"reason": "GPU repair"} | fields))


def added(by: User, **fields) -> Silence:
    return add_silence(terms(**fields), by=by, now=at(0))


def test_an_operator_silences_a_node_and_the_audit_log_says_so(olga):
    hours = Hours(time(8), time(18))
    silence = added(olga, hours=hours)

    assert (silence.by, silence.reason) == (olga, "GPU repair")
    [mute] = read_mutes(at(0), at(0))
    assert (mute.matchers, mute.hours) == (ON_NODE, hours)
    entry = AuditEntry.objects.get(action="silence.add")
    assert (entry.subject, entry.detail["reason"]) == ("Node is gpu-01", "GPU repair")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "justification"}, "kind"),
        ({"kind": "x"}, "kind"),
        ({"matchers": ()}, "matchers"),
        ({"matchers": (Matcher("colour", ("red",)),)}, "matchers"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 301}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"ends_at": at(0)}, "ends_at"),
        ({"starts_at": at(-60), "ends_at": at(-1)}, "ends_at"),
        ({"ends_at": at(366 * 24 * 60 + 1)}, "ends_at"),
        ({"hours": Hours(time(8), time(9), "Mars/Base")}, "zone"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(olga, fields, field):
    with pytest.raises(RefusedFieldError) as refused:
        added(olga, **fields)

    assert (refused.value.field, Silence.objects.count()) == (field, 0)


@pytest.mark.parametrize(
    ("meant", "is_allowed"),
    [
        (OF_NLP, True),
        ((*OF_NLP, *ON_NODE), True),
        (ON_NODE, False),
        ((Matcher("team", ("vision",)),), False),
        ((Matcher("team", ("nlp", "vision")),), False),
        ((Matcher("team", ("*",)),), False),
        ((Matcher("team", ("vision",), is_not=True),), False),
    ],
)
def test_a_lead_silences_what_is_his_teams_alone(lena, meant, is_allowed):
    if is_allowed:
        assert added(lena, matchers=meant).by == lena
        return
    with pytest.raises(PermissionDenied):
        added(lena, matchers=meant)


def test_what_a_lead_silences_is_his_teams_alone_and_what_an_operator_does_is_not(lena, olga):
    of_both = {"team": ("nlp", "vision"), "user": ("hugo",)}
    meant = (*OF_NLP, Matcher("user", ("hugo",)))

    added(lena, matchers=meant)
    [of_lead] = read_mutes(at(0), at(0))
    added(olga, matchers=meant)
    [_, of_operator] = read_mutes(at(0), at(0))

    assert not of_lead.holds(of_both, at(0))
    assert of_lead.holds(of_both | {"team": ("nlp",)}, at(0))
    assert of_operator.holds(of_both, at(0))


def test_an_exemption_is_the_operators_and_has_an_approver(olga, lena):
    with pytest.raises(PermissionDenied):
        added(lena, kind="exemption", matchers=OF_NLP)
    with pytest.raises(RefusedFieldError) as refused:
        added(olga, kind="exemption", approved_by=lena)
    assert refused.value.field == "approved_by"

    assert added(olga, kind="exemption").approved_by == olga


def test_a_stranger_sets_and_ends_nothing(olga):
    silence = added(olga)
    eve = people.person("eve", name="Eve")

    with pytest.raises(PermissionDenied):
        added(eve)
    with pytest.raises(PermissionDenied):
        end_silence(silence.pk, by=eve, now=at(1))

    assert endable(eve, [silence], now=at(1)) == set()


def test_a_silence_that_is_ended_holds_no_longer(olga):
    begun, ahead = added(olga), added(olga, starts_at=at(30))

    end_silence(begun.pk, by=olga, now=at(10))
    end_silence(ahead.pk, by=olga, now=at(10))
    end_silence(begun.pk, by=olga, now=at(20))

    assert list(Silence.objects.values_list("ends_at", flat=True)) == [at(10)]
    assert AuditEntry.objects.filter(action="silence.end").count() == 2


def test_whoever_justified_may_take_it_back():
    ana = people.person()
    incident = an_incident(a_rule(), "slurm/della/1", opened_at=at(0), person=ana)
    act(incident.pk, Action("not_waste", reason="it serves"), by=ana, now=at(10))

    end_silence(Silence.objects.get().pk, by=ana, now=at(20))

    assert read_mutes(at(20), at(20)) == []


def test_operators_set_routes_and_leads_their_teams(olga, lena):
    hook = people.webhook()
    nlp, vision = people.team("nlp"), people.team("vision")

    set_route("operators", [hook], by=olga, now=at(0))
    set_route("team", [hook], by=lena, now=at(0), team=nlp)
    for kind, team in (("operators", None), ("unowned", None), ("team", vision)):
        with pytest.raises(PermissionDenied):
            set_route(kind, [hook], by=lena, now=at(0), team=team)

    assert set(Route.objects.values_list("kind", "team__slug")) == {
        ("operators", None),
        ("team", "nlp"),
    }
    assert AuditEntry.objects.filter(action="route.set").count() == 2


def test_a_route_to_no_channel_is_no_route(olga):
    set_route("unowned", [people.webhook()], by=olga, now=at(0))

    assert set_route("unowned", [], by=olga, now=at(0)) is None
    assert Route.objects.count() == 0


@pytest.mark.parametrize(("kind", "field"), [("fleet", "kind"), ("team", "team")])
def test_a_route_that_makes_no_sense_is_refused(olga, kind, field):
    with pytest.raises(RefusedFieldError) as refused:
        set_route(kind, [], by=olga, now=at(0))

    assert refused.value.field == field


def test_everybody_sets_the_own_preference_and_nobody_elses(olga):
    ana = people.person()
    quiet = PreferenceTerms(way="email", quiet_from=time(22), quiet_until=time(7), daily_cap=3)

    set_preference(ana, quiet, by=ana)
    with pytest.raises(PermissionDenied):
        set_preference(ana, PreferenceTerms(way="none"), by=olga)

    preference = Preference.objects.get()
    assert (preference.way, preference.quiet_from, preference.daily_cap) == ("email", time(22), 3)
    assert AuditEntry.objects.get(action="preference.set").detail["quiet"] == "22:00 to 07:00"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"way": "pigeon"}, "way"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"daily_cap": -1}, "daily_cap"),
        ({"daily_cap": 101}, "daily_cap"),
        ({"quiet_from": time(22)}, "quiet_until"),
        ({"quiet_from": time(22), "quiet_until": time(22)}, "quiet_until"),
    ],
)
def test_a_preference_that_makes_no_sense_is_refused(fields, field):
    ana = people.person()

    with pytest.raises(RefusedFieldError) as refused:
        set_preference(ana, PreferenceTerms(**fields), by=ana)

    assert (refused.value.field, Preference.objects.count()) == (field, 0)


def test_what_is_silenced_of_a_rule_stays_so_when_the_rule_is_called_otherwise():
    rule = a_rule(name="Idle [batch]")
    kept = Silence.objects.create(
        kind="justification",
        matchers=[
            {"label": "rule", "values": ["Idle [[]batch]", "Other"], "is_not": False},
            {"label": "subject", "values": ["Idle [[]batch]"], "is_not": False},
        ],
        starts_at=at(0),
        ends_at=at(60),
        reason="a demo",
        created_at=at(0),
    )

    rename_rule(rule, "Idle *")

    kept.refresh_from_db()
    assert [matcher["values"] for matcher in kept.matchers] == [
        ["Idle [*]", "Other"],
        ["Idle [[]batch]"],
    ]
