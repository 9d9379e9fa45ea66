"""Who may read, what an error looks like, and that nobody can make the server fail."""

import re
from datetime import timedelta

import pytest
from django.test import Client

from fleetwatch.accounts.models import ApiToken
from fleetwatch.accounts.services import create_api_token
from tests.api.conftest import NOW
from tests.costs.factories import a_gpu, a_job

pytestmark = pytest.mark.django_db

ENDPOINTS = (
    "/api/v1/fleet/summary",
    "/api/v1/waste",
    "/api/v1/jobs",
    "/api/v1/jobs/a/b/1",
    "/api/v1/nodes",
    "/api/v1/gpus",
    "/api/v1/gpus/GPU-A",
    "/api/v1/gpus/GPU-A/series",
    "/api/v1/rates",
    "/api/v1/commitments",
    "/api/v1/incidents",
    "/api/v1/rules",
    "/api/v1/silences",
    "/api/v1/actions",
    "/api/v1/action-policies",
    "/api/v1/back-test?condition=job_idle",
    "/api/v1/budgets",
    "/api/v1/forecast",
    "/api/v1/anomalies",
    "/api/v1/reports",
    "/api/v1/invoices",
    "/api/v1/invoices/2026-10",
    "/api/v1/openapi.json",
    "/metrics",
)


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_stranger_gets_401(path):
    answer = Client().get(path)

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer.json() == {
        "error": "an API token or a session is needed",
        "field": "Authorization",
    }


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic YTpi", "Bearer \x00"])
def test_a_wrong_token_gets_401(path, header):
    assert Client().get(path, headers={"authorization": header}).status_code == 401


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_token_and_a_session_both_open_the_door(path, api, user):
    a_gpu(uuid="GPU-A")
    a_job(key="a/b/1")
    session = Client()
    session.force_login(user)

    assert api.get(path).status_code == 200
    assert session.get(path).status_code == 200


@pytest.mark.parametrize(
    "change", [{"revoked_at": NOW}, {"expires_at": NOW - timedelta(seconds=1)}]
)
def test_a_token_that_was_revoked_or_ran_out_is_a_strangers(user, change):
    text = create_api_token(user, scope="read", now=NOW)
    ApiToken.objects.update(**change)

    assert (
        Client().get("/api/v1/nodes", headers={"authorization": f"Bearer {text}"}).status_code
        == 401
    )


def test_the_token_of_somebody_who_left_is_a_strangers(api, user):
    user.is_active = False
    user.save(update_fields=["is_active"])

    assert api.get("/api/v1/nodes").status_code == 401
    assert api.get("/metrics").status_code == 401


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_can_be_written(api, method):
    assert getattr(api, method)("/api/v1/nodes").status_code == 405


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("from=now&to=now-1h", "from"),
        ("to=now", "from"),
        ("from=0001-01-01&to=0001-01-02", "from"),
        ("from=9999-12-30&to=9999-12-31", "from"),
        ("from=now-2000d", "from"),
        ("range=century", "range"),
        ("group_by=colour", "group_by"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("cursor=nonsense", "cursor"),
        ("cursor=WzEsMl0", "cursor"),
        ("cursor=WzEsMiwtMV0", "cursor"),
        ("cursor=Ww", "cursor"),
        ("team=%00", "team"),
    ],
)
def test_a_wrong_parameter_is_named(api, query, field):
    answer = api.get(f"/api/v1/waste?{query}")

    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/jobs/slurm/della/1", "key"),
        ("/api/v1/gpus/GPU-X", "uuid"),
        ("/api/v1/gpus/GPU-X/series", "uuid"),
        ("/api/v1/gpus/%00", "uuid"),
    ],
)
def test_what_is_not_there_is_404(api, path, field):
    answer = api.get(path)

    assert (answer.status_code, answer.json()["field"]) == (404, field)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("metrics=", "metrics"),
        ("metrics=power_w;drop", "metrics"),
        ("step_s=0", "step_s"),
        ("step_s=1&from=now-30d", "step_s"),
        ("from=now-36d", "from"),
        (f"metrics={','.join(f'm{number}x' for number in range(41))}", "metrics"),
    ],
)
def test_a_series_that_is_wrong_or_too_much_is_refused(api, query, field):
    a_gpu(uuid="GPU-A")

    answer = api.get(f"/api/v1/gpus/GPU-A/series?{query}")

    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_the_docs_are_behind_the_login_and_load_only_our_own_files(user, settings):
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    stranger, session = Client(), Client()
    session.force_login(user)

    assert stranger.get("/api/v1/docs").status_code == 302
    answer = session.get("/api/v1/docs")
    page = answer.content.decode()

    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe-inline" not in answer["Content-Security-Policy"]
    assert "/api/v1/openapi.json" in page
