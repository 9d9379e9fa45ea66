"""Rules in the API: how they are set, by whom they may be, and tried on history."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.alerts.conditions import CONDITIONS
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.services import set_rule, terms_of
from fleetwatch.costs.models import Rate
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import to_ms
from tests import stored_runs
from tests.alerts.factories import a_rule
from tests.api.conftest import NOW
from tests.costs.factories import a_gpu, a_job, a_rate
from tests.notify.factories import slack_channel

pytestmark = pytest.mark.django_db
SETTABLE = (
    "threshold", "minutes", "clear", "min_coverage", "grace_minutes", "clear_minutes", "is_enabled",
    "severity", "matchers", "schedule", "tells_owner", "remind_minutes", "escalate_minutes",
    "channels",
)  # fmt: skip
BERLIN = {"starts": "08:00:00", "ends": "18:00:00", "zone": "Europe/Berlin", "days": [0, 1, 2]}


@pytest.fixture
def operator(db):
    """A client whose token writes for an operator."""
    someone = User.objects.create(username="op", role=User.Role.OPERATOR)
    token = create_api_token(someone, scope="write", now=NOW)
    return Client(headers={"Authorization": f"Bearer {token}"})


def only(api) -> dict:
    [row] = api.get("/api/v1/rules").json()["rows"]
    return row


def put(client, row: dict, **changes):
    body = {name: row[name] for name in SETTABLE} | changes
    return client.put(f"/api/v1/rules/{row['id']}", body, content_type="application/json")


def idle(minutes: int, *, user: str = "ann", node: str = "n1", ago: timedelta) -> None:
    """A job of one GPU that did nothing for so long."""
    gpu = a_gpu(node=node)
    if not Rate.objects.exists():
        a_rate("6", gpu=gpu)
    start_ms = to_ms(NOW - ago)
    gpu.node.last_ms = start_ms + minutes * 60_000
    gpu.node.save(update_fields=["last_ms"])
    lasted = minutes * 60_000
    run = Run(
        node=gpu.node, gpu=gpu, job=a_job(key=f"slurm/della/{user}", user=user), condition="quiet",
        start_ms=start_ms, end_ms=start_ms + lasted, state_ms={"idle": lasted},
        figures={"memory_used_bytes_ms": lasted, "memory_used_bytes_sum": 40e9 * lasted},
    )  # fmt: skip
    stored_runs.store(run)


def owners_of(rows: list[dict]) -> list[str]:
    return [row["owner"].removesuffix(" (nlp)") for row in rows]


def test_every_condition_has_a_rule_that_says_what_it_does(api):
    rows = api.get("/api/v1/rules").json()["rows"]

    assert {row["condition"] for row in rows} == {each.name for each in CONDITIONS}
    assert all(row["is_shipped"] and row["sentence"] for row in rows)
    assert all("{" not in row["sentence"] for row in rows)


def test_a_rule_says_how_it_is_set_what_it_watches_and_whom_it_tells(api):
    rule = a_rule(
        name="Idle in nlp", threshold=0, minutes=45, matchers=[
            {"label": "team", "values": ["nlp*"], "is_not": False}
        ], schedule=BERLIN, is_shipped=True,
    )  # fmt: skip
    rule.channels.add(slack_channel("https://hooks.example/x", name="ops"))

    row = only(api)

    assert {name: row[name] for name in SETTABLE} == {
        "threshold": 0,
        "minutes": 45,
        "clear": None,
        "min_coverage": 0.5,
        "grace_minutes": 0,
        "clear_minutes": 0,
        "is_enabled": True,
        "severity": "warning",
        "matchers": [{"label": "team", "values": ["nlp*"], "is_not": False}],
        "schedule": BERLIN,
        "tells_owner": True,
        "remind_minutes": 1440,
        "escalate_minutes": 240,
        "channels": ["ops"],
    }
    assert (row["id"], row["name"], row["condition"]) == (rule.pk, "Idle in nlp", "job_idle")
    assert (row["label"], row["kind"], row["unit"]) == ("Job idle", "job", "")
    assert "45 minutes" in row["sentence"]
    assert "hooks.example" not in str(row)


def test_what_was_read_and_sent_back_changes_nothing(operator):
    a_rule(schedule=BERLIN, matchers=[{"label": "team", "values": ["nlp"], "is_not": True}])
    before = Rule.objects.values().get()
    row = only(operator)

    answer = put(operator, row)

    assert (answer.status_code, answer.json()) == (200, row)
    assert Rule.objects.values().get() == before


def test_an_operator_sets_every_term_and_the_log_says_so(operator):
    a_rule()
    slack_channel("https://hooks.example/x", name="ops")
    wanted = {
        "minutes": 60,
        "min_coverage": 0.9,
        "grace_minutes": 10,
        "clear_minutes": 5,
        "is_enabled": False,
        "severity": "critical",
        "matchers": [{"label": "label.project", "values": ["a", "b"], "is_not": False}],
        "schedule": BERLIN,
        "tells_owner": False,
        "remind_minutes": 0,
        "escalate_minutes": 30,
        "channels": ["ops"],
    }

    answer = put(operator, only(operator), **wanted)

    assert answer.status_code == 200
    row = only(operator)
    assert {name: row[name] for name in wanted} == wanted
    entry = AuditEntry.objects.get(action="rule.set")
    assert (entry.name, entry.subject) == ("op", "Job idle")
    assert entry.detail["minutes"] == 60
    assert entry.detail["scope"] == ["label.project is a or b"]
    assert entry.detail["hours"] == "Mon, Tue, Wed 08:00 to 18:00 Europe/Berlin"
    assert entry.detail["channels"] == ["ops"]


def test_what_was_renamed_and_evaluated_meanwhile_stays_so():
    rule = a_rule()
    Rule.objects.update(name="Idle job", evaluated_ms=7)

    set_rule(rule, replace(terms_of(rule), severity="info"))

    rule.refresh_from_db()
    assert (rule.name, rule.evaluated_ms, rule.severity) == ("Idle job", 7, "info")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"minutes": 0.99}, "minutes"),
        ({"minutes": 43_201}, "minutes"),
        ({"min_coverage": 0}, "min_coverage"),
        ({"min_coverage": 1.01}, "min_coverage"),
        ({"clear": 1e9}, "clear"),
        ({"grace_minutes": -1}, "grace_minutes"),
        ({"severity": "fatal"}, "severity"),
        ({"remind_minutes": -1}, "remind_minutes"),
        ({"escalate_minutes": 43_201}, "escalate_minutes"),
        ({"matchers": [{"label": "colour", "values": ["x"], "is_not": False}]}, "matchers"),
        ({"matchers": [{"label": "team", "values": [], "is_not": False}]}, "matchers"),
        ({"matchers": [{"label": "team", "values": ["a\x00"], "is_not": False}]}, 0),
        ({"matchers": [{"label": "team", "values": ["a"], "is_not": False}] * 21}, "matchers"),
        ({"schedule": BERLIN | {"zone": "Mars/Olympus"}}, "zone"),
        ({"schedule": BERLIN | {"zone": "../../etc/passwd"}}, "zone"),
        ({"schedule": BERLIN | {"days": [7]}}, "days"),
        ({"schedule": BERLIN | {"days": []}}, "days"),
        ({"schedule": BERLIN | {"starts": "08:00Z"}}, "starts"),
        ({"channels": ["nowhere"]}, "channels"),
        ({"channels": ["x"] * 101}, "channels"),
    ],
)
def test_a_term_that_makes_no_sense_is_refused_by_name_and_nothing_is_set(operator, changes, field):
    a_rule()
    before = Rule.objects.values().get()

    answer = put(operator, only(operator), **changes)

    assert (answer.status_code, str(answer.json()["field"])) == (422, str(field))
    assert Rule.objects.values().get() == before
    assert not AuditEntry.objects.filter(action="rule.set").exists()


@pytest.mark.parametrize(
    ("name", "threshold", "clear", "status"),
    [
        ("gpu_idle", 2, 1, 200),
        ("gpu_idle", 2, 2, 200),
        ("gpu_idle", 2, 3, 422),
        ("low_utilisation", 15, 20, 200),
        ("low_utilisation", 15, 14, 422),
        ("unusual_spending", 100, 50, 422),  # has none
        ("job_idle", 0, 0, 422),
    ],
)
def test_it_is_over_on_the_other_side_of_the_threshold(operator, name, threshold, clear, status):
    a_rule(condition=name, threshold=threshold)

    answer = put(operator, only(operator), clear=clear)

    assert answer.status_code == status
    assert status == 200 or answer.json()["field"] == "clear"


def test_a_term_that_is_left_out_is_asked_for_and_not_made_up(operator):
    a_rule()
    row = only(operator)
    body = {name: row[name] for name in SETTABLE if name != "matchers"}

    answer = operator.put(f"/api/v1/rules/{row['id']}", body, content_type="application/json")

    assert (answer.status_code, answer.json()["field"]) == (422, "matchers")


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [
        ("engineer", "write", 403),
        ("lead", "write", 403),
        ("finance", "write", 403),
        ("operator", "read", 403),
        ("operator", "write", 200),
        ("admin", "write", 200),
    ],
)
def test_rules_are_set_by_operators_with_a_token_that_writes(role, scope, status):
    a_rule()
    someone = User.objects.create(username="someone", role=role)
    token = create_api_token(someone, scope=scope, now=NOW)
    client = Client(headers={"Authorization": f"Bearer {token}"})

    answer = put(client, only(client), minutes=60)

    assert answer.status_code == status
    assert Rule.objects.get().minutes == (60 if status == 200 else 30)


def test_a_rule_that_there_is_not_is_a_404(operator):
    row = {"id": 99_999} | dict.fromkeys(SETTABLE)
    terms = {
        "threshold": 0, "minutes": 30, "min_coverage": 0.5, "grace_minutes": 0, "clear_minutes": 0,
        "is_enabled": True, "severity": "info", "matchers": [], "tells_owner": True,
        "remind_minutes": 0, "escalate_minutes": 0, "channels": [],
    }  # fmt: skip

    answer = put(operator, row, **terms)

    assert (answer.status_code, answer.json()["field"]) == (404, "number")


def test_a_back_test_says_what_would_have_been_opened_of_whom_at_what_cost(api):
    idle(40, user="ann", node="n1", ago=timedelta(days=2))
    idle(31, user="bob", node="n2", ago=timedelta(days=3))
    idle(29, user="cy", node="n3", ago=timedelta(days=4))

    answer = api.get("/api/v1/back-test?condition=job_idle").json()

    assert (answer["from"], answer["to"]) == ("2026-10-04T00:00:00Z", "2026-11-03T00:00:00Z")
    assert (answer["condition"], answer["incidents"], answer["people"]) == ("job_idle", 2, 2)
    assert (answer["usd"], answer["unpriced"], answer["missing"]) == (7.1, 0, 0)
    assert [(row["owner"], row["subject"], row["usd"]) for row in answer["rows"]] == [
        ("ann (nlp)", "slurm/della/ann", 4),
        ("bob (nlp)", "slurm/della/bob", 3.1),
    ]
    assert answer["rows"][0]["since"] == "2026-11-01T00:00:00Z"
    assert answer["rows"][0]["fired_at"] == "2026-11-01T00:30:00Z"
    assert not Incident.objects.exists()


@pytest.mark.parametrize(
    ("query", "owners"),
    [
        ("condition=job_idle&minutes=29", ["ann", "bob", "cy"]),
        ("condition=job_idle&minutes=35", ["ann"]),
        ("condition=job_idle&user=bob", ["bob"]),
        ("condition=job_idle&node=n1", ["ann"]),
        ("condition=job_idle&user=bob&node=n1", []),
        ("condition=job_idle&from=now-60h", ["ann"]),
        ("rule=Long idle", ["ann"]),
        ("rule=Long idle&minutes=29", ["ann", "cy"]),
    ],
)
def test_a_back_test_is_of_a_condition_or_a_rule_as_it_is_asked(api, query, owners):
    idle(40, user="ann", node="n1", ago=timedelta(days=2))
    idle(31, user="bob", node="n2", ago=timedelta(days=3))
    idle(29, user="cy", node="n3", ago=timedelta(days=4))
    scope = [{"label": "user", "values": ["bob"], "is_not": True}]
    a_rule(name="Long idle", minutes=40, matchers=scope)

    rows = api.get(f"/api/v1/back-test?{query}").json()["rows"]

    assert owners_of(rows) == owners


def test_its_pages_are_whole_and_each_has_the_sums(api):
    idle(40, user="ann", node="n1", ago=timedelta(days=2))
    idle(31, user="bob", node="n2", ago=timedelta(days=3))

    first = api.get("/api/v1/back-test?condition=job_idle&limit=1").json()
    second = api.get(
        f"/api/v1/back-test?condition=job_idle&limit=1&cursor={first['next_cursor']}"
    ).json()

    assert owners_of(first["rows"] + second["rows"]) == ["ann", "bob"]
    assert first["incidents"] == second["incidents"] == 2
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("", 422, "condition"),
        ("condition=job_idle&rule=Job idle", 422, "condition"),
        ("condition=nothing", 422, "condition"),
        ("rule=nothing", 404, "rule"),
        ("condition=job_idle&minutes=0", 422, "minutes"),
        ("condition=job_idle&minutes=nan", 422, "minutes"),
        ("condition=job_idle&min_coverage=0", 422, "min_coverage"),
        ("condition=job_idle&from=now-32d", 422, "from"),
        ("condition=job_idle&from=now%2B1d&to=now%2B2d", 422, "from"),
        ("condition=job_idle&cause=hung", 422, "cause"),
    ],
)
def test_a_back_test_of_what_makes_no_sense_is_refused_by_name(api, query, status, field):
    answer = api.get(f"/api/v1/back-test?{query}")

    assert (answer.status_code, answer.json()["field"]) == (status, field)
