"""Silences in the API: what is told nobody, until when, why, and by whom it may be set."""

from datetime import timedelta

import pytest
from django.test import Client

from fleetwatch.accounts import people
from fleetwatch.accounts.models import AuditEntry, OthersShown, Team, User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.alerts.models import Silence
from tests.accounts.others import shown
from tests.api.conftest import NOW

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
NODE = [{"label": "node", "values": ["gpu-01"], "is_not": False}]
OF_TEAM = [{"label": "team", "values": ["nlp"], "is_not": False}]
TERMS = {"matchers": NODE, "ends_at": "2026-11-04T00:00:00Z", "reason": "new board"}
NIGHT = {"starts": "22:00:00", "ends": "06:00:00", "zone": "Europe/Berlin", "days": [5, 6]}


def writing(role: str, scope: str = "write", *, team: str = "") -> Client:
    someone = User.objects.create(username=f"some-{role}", role=role)
    if team:
        slug = Team.objects.get_or_create(slug=team, defaults={"name": team})[0]
        people.join(someone, slug, since=NOW - timedelta(days=9))
    token = create_api_token(someone, scope=scope, now=NOW)
    return Client(headers={"Authorization": f"Bearer {token}"})


def post(client, **changes):
    return client.post("/api/v1/silences", TERMS | changes, content_type="application/json")


def a_silence(starts_at=NOW - HOUR, ends_at=NOW + HOUR, **fields) -> Silence:
    return Silence.objects.create(
        matchers=NODE, starts_at=starts_at, ends_at=ends_at, created_at=NOW, **fields
    )


def ids(api, query: str = "") -> list[int]:
    return [row["id"] for row in api.get(f"/api/v1/silences{query}").json()["rows"]]


def test_an_operator_sets_one_and_reads_it_as_it_was_set():
    operator = writing("operator")

    answer = post(operator, schedule=NIGHT)

    assert answer.status_code == 200
    assert answer.json() == {
        "id": answer.json()["id"],
        "state": "active",
        "kind": "silence",
        "matchers": NODE,
        "starts_at": "2026-11-03T00:00:00Z",
        "ends_at": "2026-11-04T00:00:00Z",
        "schedule": NIGHT,
        "reason": "new board",
        "by": "some-operator",
        "approved_by": None,
        "created_at": "2026-11-03T00:00:00Z",
    }
    assert operator.get("/api/v1/silences").json()["rows"] == [answer.json()]
    assert AuditEntry.objects.filter(action="silence.add", name="some-operator").exists()


def test_an_exemption_says_who_approved_of_it():
    User.objects.create(username="chief", role="operator")

    by = writing("operator")
    answers = [
        post(by, kind="exemption", **more).json()["approved_by"]
        for more in ({}, {"approved_by": "chief"})
    ]

    assert answers == ["some-operator", "chief"]


def test_they_are_listed_by_state(api):
    active = a_silence()
    begins = a_silence(starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR)
    over = a_silence(starts_at=NOW - 2 * HOUR, ends_at=NOW)

    assert ids(api) == [begins.pk, active.pk]
    assert [ids(api, f"?state={state}") for state in ("active", "pending", "expired")] == [
        [active.pk],
        [begins.pk],
        [over.pk],
    ]


def test_one_that_is_ended_is_expired_and_kept():
    silence = a_silence()

    answer = writing("operator").delete(f"/api/v1/silences/{silence.pk}")

    silence.refresh_from_db()
    assert (answer.status_code, answer.json()["state"]) == (200, "expired")
    assert silence.ends_at == NOW


def test_one_that_has_not_begun_is_gone():
    silence = a_silence(starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR)

    answer = writing("operator").delete(f"/api/v1/silences/{silence.pk}")

    assert answer.status_code == 200
    assert not Silence.objects.exists()


def test_what_there_is_not_can_not_be_ended():
    assert writing("operator").delete("/api/v1/silences/9999").status_code == 404


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ends_at": "2026-11-03T00:00:00Z"}, "ends_at"),
        ({"ends_at": "2027-11-04T00:00:01Z"}, "ends_at"),
        ({"ends_at": "2026-11-04T00:00:00"}, "ends_at"),
        ({"starts_at": "2026-11-05T00:00:00Z"}, "ends_at"),
        ({"matchers": []}, "matchers"),
        ({"matchers": [{"label": "colour", "values": ["x"], "is_not": False}]}, "matchers"),
        ({"matchers": NODE * 21}, "matchers"),
        ({"reason": " "}, "reason"),
        ({"reason": "x" * 301}, "reason"),
        ({"kind": "justification"}, "kind"),
        ({"kind": "for ever"}, "kind"),
        ({"kind": "exemption", "approved_by": "nobody"}, "approved_by"),
        ({"schedule": NIGHT | {"zone": "Nowhere"}}, "zone"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_nothing_is_set(changes, field):
    answer = post(writing("operator"), **changes)

    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not Silence.objects.exists()


@pytest.mark.parametrize(
    ("role", "scope", "matchers", "status"),
    [
        ("engineer", "write", OF_TEAM, 403),
        ("finance", "write", OF_TEAM, 403),
        ("lead", "write", NODE, 403),
        ("lead", "write", OF_TEAM, 200),
        ("lead", "read", OF_TEAM, 403),
        ("operator", "write", NODE, 200),
        ("operator", "read", NODE, 403),
        ("admin", "write", NODE, 200),
    ],
)
def test_operators_set_any_and_leads_their_teams(role, scope, matchers, status):
    answer = post(writing(role, scope, team="nlp"), matchers=matchers)

    assert answer.status_code == status
    assert Silence.objects.count() == (status == 200)


def test_who_sees_the_own_alone_has_those_that_he_may_end():
    shown(OthersShown.OWN_TEAMS)
    others = a_silence()
    lead = writing("lead", team="nlp")
    own = post(lead, matchers=OF_TEAM).json()["id"]

    assert ids(lead) == [own]
    assert lead.delete(f"/api/v1/silences/{others.pk}").status_code == 404
    assert lead.delete(f"/api/v1/silences/{own}").status_code == 200
