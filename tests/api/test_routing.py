"""Routes in the API: where incidents go, by whom that may be set, and what of it others see."""

import pytest

from fleetwatch.accounts.models import AuditEntry, OthersShown, Team
from fleetwatch.alerts.models import Route
from tests.accounts.others import shown
from tests.api.test_silences import writing
from tests.notify.factories import slack_channel

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _channels(db):
    for name in ("ops", "nlp", "vision", "spare"):
        slack_channel("https://slack.example", name=name)


def put(client, kind: str, *channels: str, team: str | None = None):
    sent = {"kind": kind, "team": team, "channels": list(channels)}
    return client.put("/api/v1/routes", sent, content_type="application/json")


def rows(client) -> list[tuple]:
    listed = client.get("/api/v1/routes").json()["rows"]
    return [(row["kind"], row["team"], row["channels"]) for row in listed]


def test_an_operator_sets_every_route_and_reads_them_the_fleets_first():
    Team.objects.create(slug="nlp", name="NLP")
    operator = writing("operator")

    answers = [
        put(operator, "team", "nlp", "ops", team="nlp"),
        put(operator, "unowned", "ops"),
        put(operator, "operators", "ops"),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json() == {"kind": "team", "team": "nlp", "channels": ["nlp", "ops"]}
    assert rows(operator) == [
        ("operators", None, ["ops"]),
        ("unowned", None, ["ops"]),
        ("team", "nlp", ["nlp", "ops"]),
    ]
    assert AuditEntry.objects.filter(action="route.set", name="some-operator").count() == 3


def test_without_channels_there_is_no_route_any_more():
    operator = writing("operator")
    put(operator, "operators", "ops")

    answer = put(operator, "operators")

    assert (answer.json()["channels"], rows(operator)) == ([], [])


def test_a_lead_sets_the_own_teams_route_and_no_other():
    lead = writing("lead", team="nlp")
    Team.objects.create(slug="vision", name="Vision")

    statuses = [
        put(lead, "team", "nlp", team="nlp").status_code,
        put(lead, "team", "ops", team="vision").status_code,
        put(lead, "operators", "ops").status_code,
        put(writing("engineer"), "team", "ops", team="nlp").status_code,
    ]

    assert statuses == [200, 403, 403, 403]
    assert rows(lead) == [("team", "nlp", ["nlp"])]


def test_a_token_that_reads_sets_nothing():
    assert put(writing("operator", "read"), "operators", "ops").status_code == 403
    assert not Route.objects.exists()


@pytest.mark.parametrize(
    ("kind", "channels", "team", "status", "field"),
    [
        ("team", ["ops"], None, 422, "team"),
        ("operators", ["ops"], "nlp", 422, "team"),
        ("team", ["ops"], "nobody", 404, "team"),
        ("operators", ["<img>"], None, 422, "channels"),
        ("everything", ["ops"], None, 422, "kind"),
    ],
)
def test_what_is_no_route_is_refused_and_said_where(kind, channels, team, status, field):
    Team.objects.create(slug="nlp", name="NLP")

    answer = put(writing("operator"), kind, *channels, team=team)

    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not Route.objects.exists()


def test_a_limited_lead_sees_and_sets_the_own_teams_route_alone():
    Team.objects.create(slug="vision", name="Vision")
    lead, operator = writing("lead", team="nlp"), writing("operator")
    put(operator, "operators", "ops")
    put(operator, "team", "vision", team="vision")
    shown(OthersShown.OWN_TEAMS)

    own = put(lead, "team", "spare", "ops", team="nlp")
    others = put(lead, "team", "spare", team="vision")
    of_others = put(lead, "team", "vision", team="nlp")

    assert own.json()["channels"] == ["ops", "spare"]
    assert (others.status_code, of_others.status_code) == (404, 422)
    assert rows(lead) == [("team", "nlp", ["ops", "spare"])]


def test_a_channel_that_two_teams_have_is_offered_to_both():
    Team.objects.create(slug="vision", name="Vision")
    lead, operator = writing("lead", team="nlp"), writing("operator")
    put(operator, "team", "spare", team="nlp")
    put(operator, "team", "spare", team="vision")
    shown(OthersShown.OWN_TEAMS)

    assert put(lead, "team", "spare", "nlp", team="nlp").status_code == 200
