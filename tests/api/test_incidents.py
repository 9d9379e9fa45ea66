"""Incidents in the API: which, in what state, whose, what they cost, and what happened to them."""

from datetime import timedelta

import pytest
from django.test import Client

from fleetwatch.accounts import people
from fleetwatch.accounts.models import AuditEntry, OthersShown, Team, User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.alerts.models import IncidentEvent, IncidentGroup, Notification
from tests.accounts.others import shown
from tests.alerts.factories import a_rule, an_incident
from tests.api.conftest import NOW
from tests.notify.factories import slack_channel

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def subjects(api, query: str) -> list[str]:
    return [row["subject"] for row in api.get(f"/api/v1/incidents{query}").json()["rows"]]


@pytest.fixture
def several(user):
    """One in each state, of two rules, teams and people."""
    rule = a_rule(name="Job idle", severity="critical")
    team = Team.objects.create(slug="nlp", name="NLP")
    an_incident(rule, "a/b/1", opened_at=NOW - HOUR, person=user, team=team)
    an_incident(rule, "a/b/2", opened_at=NOW - 2 * HOUR, state="acknowledged", team=team)
    an_incident(rule, "a/b/3", opened_at=NOW - 3 * HOUR, resolved_at=NOW - HOUR)
    an_incident(rule, "a/b/4", opened_at=NOW - 4 * HOUR, fired_ms=None, state="pending")


def test_an_incident_says_whose_it_is_what_it_costs_and_when_it_was_what(api, user):
    rule = a_rule(name="Job idle", severity="critical")
    team = Team.objects.create(slug="nlp", name="NLP")
    an_incident(
        rule,
        "a/b/1",
        opened_at=NOW - HOUR,
        state="acknowledged",
        acknowledged_at=NOW - HOUR / 2,
        snoozed_until=NOW + HOUR,
        person=user,
        team=team,
        muted="silence 7",
        note="Not known since 23:50 whether it goes on.",
        verdict="confirmed",
        facts={
            "owner": "ann",
            "cost_usd": "3.1234564",
            "usd_per_hour": "6.5",
            "facts": {"gpus": 2},
        },
    )

    [row] = api.get("/api/v1/incidents").json()["rows"]

    assert row == {
        "id": row["id"],
        "rule": "Job idle",
        "condition": "job_idle",
        "severity": "critical",
        "state": "acknowledged",
        "kind": "job",
        "subject": "a/b/1",
        "title": "idle · a/b/1",
        "since": "2026-11-02T23:00:00Z",
        "fired_at": "2026-11-02T23:00:00Z",
        "until": "2026-11-02T23:01:00Z",
        "ended_at": None,
        "opened_at": "2026-11-02T23:00:00Z",
        "updated_at": "2026-11-02T23:00:00Z",
        "acknowledged_at": "2026-11-02T23:30:00Z",
        "snoozed_until": "2026-11-03T01:00:00Z",
        "resolved_at": None,
        "resolution": "",
        "owner": "ann",
        "person": "ann",
        "assignee": None,
        "team": "nlp",
        "usd": 3.123456,
        "usd_per_hour": 6.5,
        "has_example_rates": False,
        "muted": "silence 7",
        "note": "Not known since 23:50 whether it goes on.",
        "verdict": "confirmed",
        "is_late": False,
        "facts": {"gpus": 2},
    }


def test_dollars_of_what_has_no_rate_are_not_known(api):
    an_incident(a_rule(), "a/b/1", opened_at=NOW - HOUR)

    [row] = api.get("/api/v1/incidents").json()["rows"]

    assert (row["usd"], row["usd_per_hour"], row["owner"], row["person"]) == (None,) * 4


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["a/b/1", "a/b/2", "a/b/3"]),
        ("?state=firing", ["a/b/1"]),
        ("?state=acknowledged", ["a/b/2"]),
        ("?state=resolved", ["a/b/3"]),
        ("?state=pending", ["a/b/4"]),
        ("?rule=Job idle", ["a/b/1", "a/b/2", "a/b/3"]),
        ("?rule=Job", []),
        ("?team=nlp", ["a/b/1", "a/b/2"]),
        ("?user=ann", ["a/b/1"]),
        ("?person=ann", ["a/b/1"]),
        ("?team=nlp&state=acknowledged", ["a/b/2"]),
        ("?person=nobody", []),
    ],
)
def test_a_filter_narrows_to_the_state_the_rule_the_team_and_the_person(
    api, several, query, expected
):
    assert subjects(api, query) == expected


def test_pages_are_in_order_and_whole(api, several):
    first = api.get("/api/v1/incidents?limit=2").json()
    second = api.get(f"/api/v1/incidents?limit=2&cursor={first['next_cursor']}").json()

    assert [row["subject"] for row in first["rows"] + second["rows"]] == ["a/b/1", "a/b/2", "a/b/3"]
    assert second["next_cursor"] is None


def test_a_state_that_there_is_not_is_refused_with_the_field(api):
    answer = api.get("/api/v1/incidents?state=open")

    assert (answer.status_code, answer.json()["field"]) == (422, "state")


def test_one_incident_has_its_timeline_and_who_was_told(api, user):
    rule = a_rule()
    group = IncidentGroup.objects.create(rule=rule, key="x", opened_at=NOW)
    incident = an_incident(
        rule,
        "a/b/1",
        opened_at=NOW - HOUR,
        group=group,
        facts={"lines": [["Util", "0 %"]], "actions": ["scancel 1"], "labels": {"node": ["n1"]}},
    )
    IncidentEvent.objects.create(incident=incident, at=NOW, kind="resolved", text="over", by=user)
    IncidentEvent.objects.create(incident=incident, at=NOW - HOUR, kind="fired", text="idle")
    Notification.objects.create(
        group=group, step=0, kind="opened", person=user, channel=slack_channel("https://hooks.example/x"), address="U1",
        why="it is his job", due_at=NOW, created_at=NOW,
    )  # fmt: skip

    answer = api.get(f"/api/v1/incidents/{incident.pk}").json()

    assert (answer["id"], answer["what"], answer["limit"]) == (
        incident.pk,
        "1 GPU did nothing",
        "idle for 30 min",
    )
    assert answer["measurements"] == [{"label": "Util", "value": "0 %"}]
    assert (answer["advice"], answer["labels"]) == (["scancel 1"], {"node": ["n1"]})
    assert [(line["kind"], line["text"], line["by"]) for line in answer["timeline"]] == [
        ("fired", "idle", None),
        ("resolved", "over", "ann"),
    ]
    [sent] = answer["notifications"]
    assert (sent["person"], sent["why"], sent["state"]) == ("ann", "it is his job", "sent")
    assert "U1" not in str(answer)


@pytest.mark.parametrize("number", [0, 999_999, 2**63])
def test_an_incident_that_there_is_not_is_a_404(api, number):
    answer = api.get(f"/api/v1/incidents/{number}")

    assert (answer.status_code, answer.json()["field"]) == (404, "number")


@pytest.mark.parametrize("choice", [OthersShown.OWN_TEAMS, OthersShown.PSEUDONYMS])
def test_who_sees_the_own_alone_has_the_own_and_the_own_teams_and_none_of_others(api, user, choice):
    shown(choice)
    team = Team.objects.create(slug="nlp", name="NLP")
    people.join(user, team, since=NOW - timedelta(days=9))
    rule = a_rule()
    own = an_incident(rule, "own", opened_at=NOW - HOUR, person=user)
    given = an_incident(rule, "given", opened_at=NOW - 2 * HOUR, assignee=user)
    of_team = an_incident(rule, "of team", opened_at=NOW - 3 * HOUR, team=team)
    others = an_incident(rule, "others", opened_at=NOW - 4 * HOUR)

    assert subjects(api, "") == ["own", "given", "of team"]
    assert [
        api.get(f"/api/v1/incidents/{each.pk}").status_code
        for each in (own, given, of_team, others)
    ] == [200, 200, 200, 404]


def test_who_sees_everything_sees_the_incidents_of_all(api, user):
    an_incident(a_rule(), "others", opened_at=NOW - HOUR)

    assert subjects(api, "") == ["others"]


def writing(user, scope: str = "write") -> Client:
    token = create_api_token(user, scope=scope, now=NOW)
    return Client(headers={"Authorization": f"Bearer {token}"})


def post(client, incident, action: str, **body):
    path = f"/api/v1/incidents/{incident.pk}/{action}"
    return client.post(path, body, content_type="application/json")


@pytest.fixture
def fires(user):
    """One of this engineer's jobs."""
    return an_incident(a_rule(), "a/b/1", opened_at=NOW - HOUR, person=user)


def test_whose_it_is_acknowledges_it_and_the_answer_says_so(user, fires):
    answer = post(writing(user), fires, "acknowledge", reason="known").json()

    assert (answer["state"], answer["acknowledged_at"]) == ("acknowledged", "2026-11-03T00:00:00Z")
    assert [(line["kind"], line["by"]) for line in answer["timeline"]] == [("ack", "ann")]
    assert AuditEntry.objects.filter(action="incident.ack", name="ann").exists()


def test_nothing_need_be_sent(user, fires):
    answer = writing(user).generic("POST", f"/api/v1/incidents/{fires.pk}/acknowledge")

    assert (answer.status_code, answer.json()["state"]) == (200, "acknowledged")


def test_twice_is_once(user, fires):
    by = writing(user)
    post(by, fires, "acknowledge")

    answer = post(by, fires, "acknowledge")

    assert answer.status_code == 200
    assert len(answer.json()["timeline"]) == 1


def test_a_snooze_ends_when_it_is_said_or_after_four_hours(user, fires):
    by = writing(user)

    usual = post(by, fires, "snooze").json()["snoozed_until"]
    said = post(by, fires, "snooze", until="2026-11-04T09:00:00+01:00").json()["snoozed_until"]

    assert (usual, said) == ("2026-11-03T04:00:00Z", "2026-11-04T08:00:00Z")


def test_what_was_resolved_is_over_and_a_second_time_is_refused(user, fires):
    by = writing(user)

    answer = post(by, fires, "resolve", reason="stopped it")
    again = post(by, fires, "resolve")

    assert (answer.json()["state"], answer.json()["resolved_at"]) == (
        "resolved",
        "2026-11-03T00:00:00Z",
    )
    assert (again.status_code, again.json()["field"]) == (422, "action")


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("snooze", {"until": "2026-11-03T00:00:00Z"}, "until"),
        ("snooze", {"until": "2026-12-03T00:00:01Z"}, "until"),
        ("snooze", {"until": "2026-11-04T00:00:00"}, "until"),
        ("snooze", {"until": "tomorrow"}, "until"),
        ("acknowledge", {"reason": "x" * 301}, "reason"),
        ("acknowledge", {"reason": "\x00"}, "reason"),
        ("not_waste", {}, "reason"),
        ("assign", {"assignee": "nobody at all"}, "assignee"),
        ("ack", {}, "action"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_nothing_is_done(
    user, fires, action, body, field
):
    answer = post(writing(user), fires, action, **body)

    fires.refresh_from_db()
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert (fires.state, fires.snoozed_until) == ("firing", None)


@pytest.mark.parametrize(
    ("role", "status"),
    [("engineer", 403), ("lead", 403), ("finance", 403), ("operator", 200), ("admin", 200)],
)
def test_of_whom_it_is_not_only_operators_act(fires, role, status):
    someone = User.objects.create(username="someone", role=role)

    assert post(writing(someone), fires, "acknowledge").status_code == status


def test_a_token_that_only_reads_acts_on_nothing(user, fires):
    assert post(writing(user, "read"), fires, "acknowledge").status_code == 403


def test_who_does_not_see_it_is_not_told_that_it_is_there(user, fires):
    shown(OthersShown.OWN_TEAMS)
    someone = User.objects.create(username="someone", role=User.Role.ENGINEER)

    assert post(writing(someone), fires, "acknowledge").status_code == 404
    assert post(writing(user), fires, "acknowledge").status_code == 200
