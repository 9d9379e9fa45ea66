"""Schemathesis: whatever its OpenAPI description allows, and much that it does not, the API answers and never fails."""

import json
from functools import cache

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.api.reading import api as reading
from tests.api.conftest import NOW

pytestmark = pytest.mark.django_db


DESCRIPTION = schemathesis.openapi.from_dict(reading.get_openapi_schema(path_prefix="/api/v1/"))
# the client brings its own token: drawn ones are never sent, and cases that differ in nothing else ask the same again
DESCRIPTION.config.generation.update(with_security_parameters=False)
OPERATIONS = {operation.ok().label: operation.ok() for operation in DESCRIPTION.get_all_operations()}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.fixture
def api(user):
    """A client whose token may decide: else the door would answer what is asked of the room behind it."""
    user.role = User.Role.ADMIN
    user.save(update_fields=["role"])
    return Client(headers={"Authorization": f"Bearer {create_api_token(user, scope='write', now=NOW)}"})


@cache
def cases(label, mode):
    """A strategy; made once, as each making reads the description anew."""
    return OPERATIONS[label].as_strategy(generation_mode=mode)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", OPERATIONS)
@settings(max_examples=20, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_api_never_fails(api, label, mode, data):
    case = data.draw(cases(label, mode))

    # what no JSON is at all comes as an empty body
    sent = {"data": json.dumps(case.body, default=str), "content_type": "application/json"} if case.method == "POST" else {}
    answer = getattr(api, case.method.lower())(case.formatted_path, query_params=dict(case.query or {}), **sent)

    assert answer.status_code in (200, 404, 422)
    assert answer["Content-Type"].startswith("application/json")
    assert answer.status_code == 200 or set(answer.json()) == {"error", "field"}


def test_every_contract_endpoint_is_described_with_its_answer():
    paths = reading.get_openapi_schema(path_prefix="/api/v1/")["paths"]

    assert sorted(paths) == [
        "/api/v1/anomalies",
        "/api/v1/budgets",
        "/api/v1/commitments",
        "/api/v1/explain",
        "/api/v1/explain/figure",
        "/api/v1/findings",
        "/api/v1/findings/{number}",
        "/api/v1/findings/{number}/{action}",
        "/api/v1/fleet/summary",
        "/api/v1/forecast",
        "/api/v1/gpus",
        "/api/v1/gpus/{uuid}",
        "/api/v1/gpus/{uuid}/series",
        "/api/v1/incidents",
        "/api/v1/invoices",
        "/api/v1/invoices/{month}",
        "/api/v1/jobs",
        "/api/v1/jobs/{key}",
        "/api/v1/ledger/try-policy",
        "/api/v1/mappings",
        "/api/v1/nodes",
        "/api/v1/rates",
        "/api/v1/reports",
        "/api/v1/reports/{report_id}",
        "/api/v1/waste",
    ]
    for (described,) in (methods.values() for methods in paths.values()):
        assert "$ref" in described["responses"][200]["content"]["application/json"]["schema"]
        assert described["security"][0] in ({"Token": []}, {"WriteToken": []})
        assert described["security"][1:] == [{"SessionAuth": []}]


@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1/nope/1", "/api/v1/jobs/a%0Ab"])
def test_an_address_that_is_not_there_is_a_404_in_json(path):
    answer = Client().get(path)

    assert answer.status_code == 404
    assert answer.json() == {"error": "there is nothing at this address", "field": None}
