"""Every route of the API with every kind of token: a new route is in its description, and so here."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import get_args

import pytest
from django.http import HttpResponse

from fleetwatch.accounts.permissions import Right
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.api import incident_routes
from fleetwatch.api.v1 import api
from fleetwatch.diagnosis.findings import deciding
from fleetwatch.reports.models import Report
from tests.accounts import world
from tests.accounts.walking import (
    METHODS,
    Address,
    Walk,
    Walker,
    body,
    decides,
    may,
    written,
)
from tests.accounts.world import ROLES, World
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db
DECISION = {"note": "because", "until": (NOW + timedelta(days=1)).isoformat()}
ACTION = {"reason": "because", "until": DECISION["until"], "assignee": "walker-operator"}
RULE = {
    "threshold": 0, "minutes": 31, "clear": None, "min_coverage": 0.5, "grace_minutes": 0,
    "clear_minutes": 0, "is_enabled": True, "severity": "info", "matchers": [], "schedule": None,
    "tells_owner": True, "remind_minutes": 0, "escalate_minutes": 0, "channels": [],
}  # fmt: skip
SILENCE = {
    "matchers": [{"label": "node", "values": ["node-001"], "is_not": False}],
    "ends_at": DECISION["until"], "reason": "because",
}  # fmt: skip
PREFERENCE = {
    "way": "none", "time_zone": "", "quiet_from": None, "quiet_until": None, "daily_cap": 3,
    "gets_digest": True,
}  # fmt: skip
CHANGES = {
    "/api/v1/actions/": {"reason": "because"},
    "/api/v1/rules/": RULE,
    "/api/v1/incidents/": ACTION,
    "/api/v1/silences": SILENCE,
    "/api/v1/routes": {"kind": "operators", "team": None, "channels": []},
    "/api/v1/preferences": PREFERENCE,
}


def routes(there: World) -> Iterator[tuple[str, str, set[str]]]:
    """Each route of the API filled in, its action if it has one, and the methods that it has."""
    fields = {
        "key": "slurm/della/1000",
        "uuid": "GPU-node-001-0",
        "report_id": Report.objects.latest("pk").pk,
        "month": world.MONTH,
    }
    numbers = {
        "findings": there.finding.pk,
        "incidents": Incident.objects.latest("pk").pk,
        "rules": Rule.objects.earliest("pk").pk,
        "silences": there.silence.pk,
        "actions": there.policy.actions.get(state="warned").pk,
        "action-policies": there.policy.pk,
    }
    for route, described in api.get_openapi_schema(path_prefix="/api/v1/")["paths"].items():
        methods = {method.upper() for method in described}
        about = route.split("/")[3]
        number = numbers.get(about, 0)
        acted_on = {
            "findings": product((there.finding.pk, there.others.pk), deciding.KINDS),
            "incidents": product((number,), get_args(incident_routes.Action)),
        }
        for of, action in acted_on[about] if "{action}" in route else [(number, "")]:
            yield route.format(**fields, number=of, action=action), action, methods
    yield "/api/v1/back-test?condition=job_idle", "", {"GET"}
    yield from [("/api/v1/openapi.json", "", {"GET"}), ("/metrics", "", {"GET"})]


def send_json(by: Walker, method: str, path: str, token: str) -> HttpResponse:
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    return by.ask(method, path, None, **bearer)


def ask(by: Walker, method: str, path: str, token: str) -> HttpResponse:
    return by.ask(method, path, **({"Authorization": f"Bearer {token}"} if token else {}))


def test_what_is_no_token_of_a_person_reads_and_changes_nothing(there):
    by, walk = Walker(), Walk("stranger", there)
    before = written()
    every = list(routes(there))
    for kind in ("", "unheard", "expired", "revoked", "agent", "enrolment"):
        for (path, _, methods), method in product(every, METHODS):
            status = ask(by, method, path, there.tokens.get(kind, kind)).status_code
            refusals = (401, 403) if method in methods else (401, 403, 405)
            walk.expect(status in refusals, kind, method, path, status)

    assert walk.wrong == []
    assert written() == before


@pytest.mark.parametrize(
    ("kind", "role"),
    [("engineer read", "engineer"), ("admin write", "admin"), ("admin as engineer", "engineer")],
)
def test_a_token_reads_every_route_and_no_secret(kind, role, there):
    by, walk = Walker(), Walk(role, there)
    # the API has no route about people or the audit log: nobody reads of them there
    hidden = (*there.secrets, world.OTHERS_ADDRESS, world.INVITED_ADDRESS, world.AUDITED)
    for path, _, methods in routes(there):
        if "GET" in methods:
            answer = ask(by, "GET", path, there.tokens[kind])
            text = body(answer)
            walk.expect(answer.status_code in (200, 422), path, answer.status_code)
            walk.expect(not any(secret in text for secret in hidden), path, "shows a secret")

    assert walk.wrong == []


KINDS = {
    **{f"{role} read": None for role in ROLES},
    **{f"{role} write": role for role in ROLES},
    "admin as engineer": "stranger",  # no job is the admin's own
}


def test_a_token_decides_as_its_scope_its_role_and_its_user_may(there):
    by, walk = Walker(), Walk("", there)
    every = product(list(routes(there)), KINDS.items(), ("POST", "PUT", "DELETE"))
    for (path, action, methods), (kind, role), method in every:
        if method not in methods:
            continue
        status = decided(by, method, path, there.tokens[kind]).status_code
        new = walk.entries.new()
        if not action and not changes(path):
            is_right = status in (200, 422)
        elif role is not None and writes(role, path, action, there):
            is_right = status == 200 and new > 0
        else:
            is_right = status == 403 and new == 0
        walk.expect(is_right, kind, method, path, status)

    assert walk.wrong == []


def test_no_token_decides_by_a_method_that_a_route_does_not_have(there):
    by, walk = Walker(), Walk("", there)
    before = written()
    every = product(list(routes(there)), KINDS, ("POST", "PUT", "DELETE"))
    for (path, _, methods), kind, method in every:
        if method not in methods:
            status = decided(by, method, path, there.tokens[kind]).status_code
            walk.expect(status == 405, kind, method, path, status)

    assert walk.wrong == []
    assert written() == before


def changes(path: str) -> bool:
    """Whether a route changes something beside findings."""
    return path.startswith(tuple(CHANGES))


def writes(role: str, path: str, action: str, there: World) -> bool:
    """Whether the role may write there."""
    if path == "/api/v1/preferences":
        return True  # the own ones
    if path.startswith("/api/v1/actions/"):
        return role == "lead"  # who was warned: it is about no incident on which others may act
    if changes(path):
        return may(role, Right.FLEET)  # the incident is nobody's, the silence of no team
    return decides(role, address(path, action), there)


def address(path: str, action: str) -> Address:
    """Of a decision."""
    return Address(path, "decideFinding", {"pk": int(path.split("/")[4]), "action": action})


def decided(by: Walker, method: str, path: str, token: str) -> HttpResponse:
    """The answer to what says all that is needed there."""
    sent = next((body for about, body in CHANGES.items() if path.startswith(about)), DECISION)
    headers = {"Authorization": f"Bearer {token}"}
    return by.ask(method, path, json=sent, **headers)


@pytest.mark.parametrize("kind", ["admin read", "admin write", "expired", "revoked", ""])
def test_no_persons_token_is_an_agents(kind, there):
    before = written()
    for path in ("/api/v1/batches", "/api/v1/enroll"):
        assert ask(Walker(), "POST", path, there.tokens.get(kind, "")).status_code == 401
    assert written() == before
