"""The OpenAPI description: what it names, and that the API answers as described, whatever it is
asked (Schemathesis).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import pytest
import requests
import schemathesis
import time_machine
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, Response, checks

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.api.description import in_words
from fleetwatch.api.v1 import api as reading
from fleetwatch.budgets.models import Anomaly
from fleetwatch.reports.models import Report
from tests.alerts.factories import a_rule, an_incident
from tests.api.conftest import NOW
from tests.diagnosis import told
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

# as it goes over the wire: statuses are text there
DESCRIBED = json.loads(json.dumps(reading.get_openapi_schema(path_prefix="/api/v1/")))
DESCRIPTION = schemathesis.openapi.from_dict(DESCRIBED)
# the client brings its own token: drawn ones are never sent, and cases that differ in nothing else
# ask the same again
DESCRIPTION.config.generation.update(with_security_parameters=False)
OPERATIONS = {
    operation.ok().label: operation.ok() for operation in DESCRIPTION.get_all_operations()
}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
IDS = {
    "GET /api/v1/anomalies": "listAnomalies",
    "GET /api/v1/budgets": "listBudgets",
    "GET /api/v1/capacity": "getCapacity",
    "GET /api/v1/capacity/what-if": "replayCapacity",
    "GET /api/v1/commitments": "listCommitments",
    "GET /api/v1/explain": "explainGpu",
    "GET /api/v1/explain/figure": "explainFigure",
    "GET /api/v1/findings": "listFindings",
    "GET /api/v1/findings/patterns": "listFindingPatterns",
    "GET /api/v1/findings/{number}": "getFinding",
    "POST /api/v1/findings/{number}/{action}": "decideFinding",
    "GET /api/v1/fleet/summary": "getFleetSummary",
    "GET /api/v1/forecast": "getForecast",
    "GET /api/v1/gpus": "listGpus",
    "GET /api/v1/gpus/{uuid}": "getGpu",
    "GET /api/v1/gpus/{uuid}/series": "getGpuSeries",
    "GET /api/v1/action-policies": "listActionPolicies",
    "GET /api/v1/action-policies/{number}": "getActionPolicy",
    "GET /api/v1/actions": "listActions",
    "GET /api/v1/actions/{number}": "getAction",
    "POST /api/v1/actions/{number}/keep": "keepJob",
    "GET /api/v1/back-test": "backTestRule",
    "GET /api/v1/incidents": "listIncidents",
    "GET /api/v1/incidents/{number}": "getIncident",
    "POST /api/v1/incidents/{number}/{action}": "actOnIncident",
    "GET /api/v1/invoices": "listInvoices",
    "GET /api/v1/invoices/{month}": "getInvoiceMonth",
    "GET /api/v1/jobs": "listJobs",
    "GET /api/v1/jobs/{key}": "getJob",
    "POST /api/v1/ledger/try-policy": "tryPolicy",
    "GET /api/v1/mappings": "listMappings",
    "GET /api/v1/me": "getMe",
    "GET /api/v1/nodes": "listNodes",
    "GET /api/v1/rates": "listRates",
    "GET /api/v1/reports": "listReports",
    "GET /api/v1/preferences": "getPreferences",
    "PUT /api/v1/preferences": "setPreferences",
    "GET /api/v1/reports/{report_id}": "getReport",
    "GET /api/v1/routes": "listRoutes",
    "PUT /api/v1/routes": "setRoute",
    "GET /api/v1/rules": "listRules",
    "PUT /api/v1/rules/{number}": "setRule",
    "GET /api/v1/silences": "listSilences",
    "POST /api/v1/silences": "addSilence",
    "DELETE /api/v1/silences/{number}": "endSilence",
    "GET /api/v1/waste": "listWaste",
}
ASKS_FOR_ONE = {"backTestRule", "explainGpu", "getForecast", "setRoute"}  # by a parameter
DECIDES = {
    "decideFinding", "tryPolicy", "setRule", "actOnIncident", "addSilence", "endSilence",
    "setRoute", "setPreferences", "keepJob",
}  # fmt: skip
ASKS_NOTHING = "GET /api/v1/preferences"  # so nothing of it can be wrong


@dataclass(frozen=True, slots=True)
class Described:
    """A client that may decide, and path parameters of what there is."""

    api: Client
    known: dict[str, str | int]


@pytest.fixture(scope="module")
def there(django_db_setup, django_db_blocker) -> Iterator[Described]:
    with shared_rows(django_db_blocker):
        with time_machine.travel(NOW, tick=False):
            described = Described(_deciding_client(), _something_of_most_kinds())
        yield described


def _deciding_client() -> Client:
    """With a token that may decide: else the door would answer what is asked of the room behind
    it.
    """
    ann = User.objects.create(username="ann", role=User.Role.ADMIN)
    token = create_api_token(ann, scope="write", now=NOW)
    return Client(headers={"Authorization": f"Bearer {token}"})


def _something_of_most_kinds() -> dict[str, str | int]:
    """So that answers have rows; path parameters of what there is."""
    told.rate(valid_from=NOW - timedelta(days=40))
    told.cause(start=NOW - timedelta(hours=2))
    found = told.finding()
    opened_at = NOW - timedelta(hours=2)
    an_incident(a_rule(), "a/b/1", opened_at=opened_at, facts={"facts": {"gpus": 2}})
    Anomaly.objects.create(
        kind="node", key="gpu-01", metric="cost", start=NOW - timedelta(hours=5),
        end=NOW - timedelta(hours=1), usd=60, usual_usd=10,
        spreads=7.5, movers=[{"kind": "job", "key": "a/b/1", "label": "train", "usd": "50"}],
        found_at=NOW,
    )  # fmt: skip
    report = Report.objects.create(
        kind="weekly_digest",
        start=NOW - timedelta(days=7),
        end=NOW,
        computed_at=NOW,
        content={"a": "12.50"},
    )
    return {
        "key": told.job().key,
        "uuid": told.gpu().uuid,
        "number": found.pk,
        "month": "2026-10",
        "report_id": report.pk,
    }


def ask_for_what_is_there(case, known) -> None:
    """Drawn names are never found, and drawn ends of a period seldom in order."""
    case.path_parameters = {
        name: known.get(name, value) for name, value in (case.path_parameters or {}).items()
    }
    query = {
        name: value
        for name, value in (case.query or {}).items()
        if name not in ("from", "to", "cursor", "team")
    }
    case.query = query | ({"gpu": known["uuid"]} if "gpu" in query else {})


def answered(api, case) -> Response:
    """What the API answers, as Schemathesis wants to see it."""
    # what no JSON is at all comes as an empty body
    sent = (
        {"data": json.dumps(case.body, default=str), "content_type": "application/json"}
        if case.method in ("POST", "PUT")
        else {}
    )
    answer = getattr(api, case.method.lower())(
        case.formatted_path, query_params=dict(case.query or {}), **sent
    )
    request = requests.Request(
        case.method, f"http://testserver{case.formatted_path}", params=dict(case.query or {})
    ).prepare()
    headers = {name: [value] for name, value in answer.headers.items()}
    return Response(answer.status_code, headers, answer.content, request, elapsed=0.0, verify=False)


@cache
def cases(label, mode):
    """A strategy; made once, as each making reads the description anew."""
    return OPERATIONS[label].as_strategy(generation_mode=mode)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", OPERATIONS)
@settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_the_api_answers_as_described_whatever_it_is_asked(there, db, label, mode, data):
    if (label, mode) == (ASKS_NOTHING, GenerationMode.NEGATIVE):
        return
    case = data.draw(cases(label, mode))
    if mode is GenerationMode.POSITIVE and data.draw(st.booleans()):
        ask_for_what_is_there(case, there.known)

    response = answered(there.api, case)

    case.validate_response(response, checks=CHECKS)
    assert response.status_code == 200 or set(json.loads(response.content)) == {"error", "field"}


def test_every_operation_is_described_with_its_stable_id_answer_and_door():
    told_ids = {
        f"{method.upper()} {path}": each["operationId"]
        for path, methods in DESCRIBED["paths"].items()
        for method, each in methods.items()
    }

    assert told_ids == IDS
    for described in (each for methods in DESCRIBED["paths"].values() for each in methods.values()):
        assert "$ref" in described["responses"]["200"]["content"]["application/json"]["schema"]
        assert described["security"][0] in ({"Token": []}, {"WriteToken": []})
        assert described["security"][1:] == [{"SessionAuth": []}]


def test_every_operation_names_the_errors_that_it_can_give():
    for path, methods in DESCRIBED["paths"].items():
        for described in methods.values():
            expected = {"200", "400", "401", "422", "429", "500", "503"}
            if "{" in path or described["operationId"] in ASKS_FOR_ONE:
                expected.add("404")
            if described["operationId"] in DECIDES:
                expected.add("403")

            assert set(described["responses"]) == expected, described["operationId"]


def test_an_error_is_described_as_it_comes():
    answer = Client().get("/api/v1/nodes")
    described = DESCRIBED["components"]["responses"]["Unauthorized"]

    assert described["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Error"
    }
    assert set(DESCRIBED["components"]["schemas"]["Error"]["properties"]) == set(answer.json())
    assert "Retry-After" in DESCRIBED["components"]["responses"]["ServiceUnavailable"]["headers"]
    assert "Retry-After" in DESCRIBED["components"]["responses"]["TooManyRequests"]["headers"]


def parameter(path: str, name: str) -> dict:
    [found] = [
        each
        for each in DESCRIBED["paths"][f"/api/v1{path}"]["get"]["parameters"]
        if each["name"] == name
    ]
    return found["schema"]


def test_parameters_have_their_bounds_words_and_forms():
    assert (parameter("/jobs", "limit")["minimum"], parameter("/jobs", "limit")["maximum"]) == (
        1,
        1000,
    )
    assert (parameter("/jobs", "cursor")["maxLength"], parameter("/jobs", "cursor")["pattern"]) == (
        200,
        "^[A-Za-z0-9_-]*$",
    )
    assert [each.get("format") for each in parameter("/jobs", "from")["anyOf"]] == [
        "date-time",
        "date",
        None,
        None,
        None,
    ]
    assert parameter("/jobs", "range")["enum"] == [
        "1h",
        "6h",
        "24h",
        "7d",
        "30d",
        "MTD",
        "last-month",
    ]
    assert parameter("/waste", "group_by")["enum"] == [
        "team",
        "project",
        "cost_centre",
        "user",
        "job",
        "node",
        "gpu_model",
        "cause",
    ]
    for path in ("/explain", "/explain/figure", "/waste", "/jobs"):
        assert parameter(path, "state")["pattern"].startswith("^(?:useful|underused|")
    assert parameter("/findings", "state")["enum"][:2] == ["idle", "stalled"]
    assert parameter("/anomalies", "kind")["enum"] == ["fleet", "team", "gpu_model", "node"]
    assert parameter("/reports", "kind")["enum"] == [
        "weekly_digest",
        "team_digest",
        "person_digest",
        "statement",
        "fleet",
    ]
    assert parameter("/findings", "status")["enum"] == [
        "open",
        "accepted",
        "snoozed",
        "exempt",
        "dismissed",
        "fixed",
    ]
    assert parameter("/invoices/{month}", "month")["pattern"] == "^[0-9]{4}-[0-9]{2}$"


def test_no_parameter_may_be_null():
    schemas = [
        each["schema"]
        for methods in DESCRIBED["paths"].values()
        for described in methods.values()
        for each in described["parameters"]
    ]

    assert len(schemas) > 100
    assert [schema for schema in schemas if "null" in json.dumps(schema)] == []


@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1/nope/1", "/api/v1/jobs/a%0Ab"])
def test_an_address_that_is_not_there_is_a_404_in_json(path):
    answer = Client().get(path)

    assert answer.status_code == 404
    assert answer.json() == {"error": "there is nothing at this address", "field": None}


@pytest.mark.parametrize(
    ("operation_id", "title"),
    [
        ("listGpus", "List GPUs"),
        ("getGpuSeries", "Get GPU series"),
        ("getMe", "Get yourself and your jobs"),
        ("explainFigure", "Explain figure"),
    ],
)
def test_an_operation_is_called_by_what_it_does(operation_id, title):
    assert in_words(operation_id) == title
