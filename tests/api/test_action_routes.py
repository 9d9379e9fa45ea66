"""Actions in the API: what is done by itself, what was done, and keeping a job."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client

from fleetwatch.accounts import people
from fleetwatch.accounts.models import AuditEntry, OthersShown, Team, User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.actions.models import Action
from fleetwatch.ingest.node_orders import OrderTerms, give
from tests.accounts.others import shown
from tests.actions.factories import a_policy
from tests.alerts.factories import a_rule, an_incident
from tests.api.conftest import NOW
from tests.costs.factories import a_gpu

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def an_action(user=None, **fields) -> Action:
    """The first warning was sent an hour ago."""
    usual = {
        "kind": "stop_job", "is_dry_run": False, "subject": "a/b/1", "restarts": 0, "gpus": 2,
        "usd_per_hour": Decimal(4), "began_at": NOW - HOUR, "person": user,
    }  # fmt: skip
    return Action.objects.create(**(usual | fields))


def rows(api, query: str = "") -> list[str]:
    return [row["subject"] for row in api.get(f"/api/v1/actions{query}").json()["rows"]]


def writing(user, scope: str = "write") -> Client:
    token = create_api_token(user, scope=scope, now=NOW)
    return Client(headers={"Authorization": f"Bearer {token}"})


def keep(client, action, **body):
    path = f"/api/v1/actions/{action.pk}/keep"
    return client.post(path, body, content_type="application/json")


def test_an_action_says_about_what_whom_and_what_came_of_it(api, user):
    policy = a_policy()
    incident = an_incident(policy.rule, "a/b/1", opened_at=NOW - 2 * HOUR, person=user)
    node = a_gpu(node="gpu-07").node
    action = an_action(
        user,
        policy=policy,
        incident=incident,
        team=Team.objects.get(slug="nlp"),
        node=node,
        state="refused",
        warned_again_at=NOW - HOUR / 2,
        acted_at=NOW - HOUR / 4,
        ended_at=NOW,
        result="another job holds one of these GPUs too",
    )

    [row] = api.get("/api/v1/actions").json()["rows"]

    assert row == {
        "id": action.pk,
        "policy": policy.pk,
        "incident": incident.pk,
        "kind": "stop_job",
        "state": "refused",
        "is_dry_run": False,
        "subject": "a/b/1",
        "restarts": 0,
        "person": "ann",
        "team": "nlp",
        "node": "gpu-07",
        "gpus": 2,
        "usd_per_hour": 4.0,
        "began_at": "2026-11-02T23:00:00Z",
        "warned_again_at": "2026-11-02T23:30:00Z",
        "acted_at": "2026-11-02T23:45:00Z",
        "ended_at": "2026-11-03T00:00:00Z",
        "result": "another job holds one of these GPUs too",
        "kept_by": None,
    }
    assert api.get(f"/api/v1/actions/{action.pk}").json() == row


@pytest.fixture
def several(user):
    """Of two policies, one of them gone; from a year ago to one that goes on."""
    policy = a_policy()
    incident = an_incident(policy.rule, "a/b/1", opened_at=NOW - HOUR)
    an_action(subject="waits", policy=policy, incident=incident)
    an_action(
        subject="kept", state="kept", began_at=NOW - 2 * HOUR, ended_at=NOW - HOUR, policy=policy
    )
    year = timedelta(days=365)
    an_action(subject="old", state="done", began_at=NOW - year, ended_at=NOW - year + HOUR)
    return {"policy": policy.pk, "incident": incident.pk}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["waits", "kept", "old"]),
        ("?state=kept", ["kept"]),
        ("?policy={policy}", ["waits", "kept"]),
        ("?policy={policy}&state=done", []),
        ("?incident={incident}", ["waits"]),
        ("?range=24h", ["waits", "kept"]),
        ("?from=2026-11-02T23:00:01Z&to=2026-11-03T00:00:00Z", ["waits"]),
        ("?from=2026-11-02T22:00:00Z&to=2026-11-02T22:00:01Z", ["kept"]),
    ],
)
def test_a_filter_narrows_to_the_state_the_policy_the_incident_and_the_period(
    api, several, query, expected
):
    assert rows(api, query.format(**several)) == expected


def test_pages_are_in_order_and_whole(api, several):
    first = api.get("/api/v1/actions?limit=2").json()
    second = api.get(f"/api/v1/actions?limit=2&cursor={first['next_cursor']}").json()

    assert [row["subject"] for row in first["rows"] + second["rows"]] == ["waits", "kept", "old"]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(("query", "field"), [("state=asked", "state"), ("policy=0", "policy")])
def test_what_there_is_not_is_refused_with_the_field(api, query, field):
    answer = api.get(f"/api/v1/actions?{query}")

    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize("number", [0, 9999, 2**63])
def test_an_action_that_there_is_not_is_a_404(api, number):
    assert api.get(f"/api/v1/actions/{number}").status_code == 404


@pytest.mark.parametrize("choice", [OthersShown.OWN_TEAMS, OthersShown.PSEUDONYMS])
def test_who_sees_the_own_alone_has_what_was_about_the_own_jobs_and_the_own_teams(
    api, user, choice
):
    shown(choice)
    team = Team.objects.create(slug="nlp", name="NLP")
    people.join(user, team, since=NOW - timedelta(days=9))
    stranger = User.objects.create(username="hidden-name")
    given = an_incident(a_rule(), "given", opened_at=NOW - HOUR, assignee=user)
    an_action(user, subject="own")
    an_action(stranger, subject="of team", team=team, began_at=NOW - 2 * HOUR)
    an_action(subject="given", incident=given, began_at=NOW - 3 * HOUR)
    others = an_action(stranger, subject="others", began_at=NOW - 4 * HOUR)

    assert rows(api) == ["own", "of team", "given"]
    assert "hidden-name" not in api.get("/api/v1/actions").content.decode()
    assert api.get(f"/api/v1/actions/{others.pk}").status_code == 404
    assert keep(writing(user), others).status_code == 404
    assert api.get("/api/v1/action-policies").status_code == 404


def test_who_was_warned_keeps_the_job_and_the_answer_says_so(user):
    action = an_action(user)

    answer = keep(writing(user), action, reason="a demo at ten").json()

    assert (answer["state"], answer["kept_by"], answer["result"], answer["ended_at"]) == (
        "kept",
        "ann",
        "a demo at ten",
        "2026-11-03T00:00:00Z",
    )
    assert AuditEntry.objects.get(action="action.keep").name == "ann"


def test_nothing_need_be_sent_and_twice_is_once(user):
    action = an_action(user)
    by = writing(user)

    codes = [by.generic("POST", f"/api/v1/actions/{action.pk}/keep").status_code for _ in range(2)]

    assert codes == [200, 200]
    assert AuditEntry.objects.filter(action="action.keep").count() == 1


def test_keeping_withdraws_the_order_that_its_node_was_given(user):
    node = a_gpu(node="gpu-07").node
    stop = OrderTerms("stop_job", "slurm", "1", ("GPU-1",), HOUR, "idle", is_dry_run=False)
    order = give(node, stop, NOW - HOUR / 60)
    action = an_action(user, state="ordered", node=node, order_key=order.key, acted_at=NOW)

    assert keep(writing(user), action).json()["state"] == "kept"

    order.refresh_from_db()
    assert order.expires_at == NOW


@pytest.mark.parametrize(
    ("role", "status"),
    [("engineer", 403), ("lead", 403), ("finance", 403), ("operator", 200), ("admin", 200)],
)
def test_of_whose_job_it_is_not_only_operators_keep_it(user, role, status):
    incident = an_incident(a_rule(), "a/b/1", opened_at=NOW - HOUR, person=user)
    action = an_action(user, incident=incident)
    someone = User.objects.create(username="someone", role=role)

    assert keep(writing(someone), action).status_code == status
    action.refresh_from_db()
    assert action.state == ("kept" if status == 200 else "warned")


def test_who_leads_the_team_keeps_it(user):
    team = Team.objects.create(slug="nlp", name="NLP")
    lead = User.objects.create(username="lea", role="lead")
    people.join(lead, team, since=NOW - timedelta(days=9))
    incident = an_incident(a_rule(), "a/b/1", opened_at=NOW - HOUR, person=user, team=team)
    action = an_action(user, incident=incident, team=team)

    assert keep(writing(lead), action).json()["kept_by"] == "lea"


def test_a_token_that_only_reads_keeps_nothing(user):
    action = an_action(user)

    assert keep(writing(user, "read"), action).status_code == 403
    action.refresh_from_db()
    assert action.state == "warned"


@pytest.mark.parametrize(
    ("fields", "body", "why"),
    [
        ({"state": "done", "ended_at": NOW}, {}, "it is over"),
        ({"state": "ended", "ended_at": NOW}, {}, "it is over"),
        ({"is_dry_run": True}, {}, "it is a dry run"),
        ({}, {"reason": "x" * 201}, "at most 200 characters"),
        ({}, {"reason": "\x00"}, "should match pattern"),
    ],
)
def test_what_is_over_a_dry_run_or_no_text_is_refused(user, fields, body, why):
    action = an_action(user, **fields)

    answer = keep(writing(user), action, **body)

    assert answer.status_code == 422
    assert why in answer.json()["error"]
    assert Action.objects.get().kept_by is None


def test_a_policy_says_what_it_does_and_about_whose_jobs(api):
    policy = a_policy(dry_run_until=NOW + HOUR, rehearsed_from=NOW - HOUR)

    [row] = api.get("/api/v1/action-policies").json()["rows"]

    assert row == {
        "id": policy.pk,
        "rule": "Job idle",
        "kind": "stop_job",
        "is_enabled": True,
        "is_dry_run": True,
        "sentence": (
            "When Job idle fires and nobody answers, warns its owner, waits 60 min, warns again,"
            " waits 60 min, and ends the job: 5 jobs an hour at most, of $100.00 an hour together."
        ),
        "whom": "batch and interactive jobs of NLP",
        "teams": ["nlp"],
        "job_kinds": ["batch", "interactive"],
        "first_wait_minutes": 60,
        "second_wait_minutes": 60,
        "max_per_hour": 5,
        "max_usd_per_hour": 100.0,
        "channel": None,
        "rehearsed_from": "2026-11-02T23:00:00Z",
        "dry_run_until": "2026-11-03T01:00:00Z",
    }
    assert api.get(f"/api/v1/action-policies/{policy.pk}").json() == row
    assert api.get("/api/v1/action-policies/9999").status_code == 404
