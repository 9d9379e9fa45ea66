"""A parameter that an operation does not take is refused, whatever is asked for."""

import pytest
from django.test import Client

from fleetwatch.api.v1 import api as reading

pytestmark = pytest.mark.django_db

PATHS = {
    path.replace("{number}", "1").replace("{report_id}", "1"): methods["get"]
    for path, methods in reading.get_openapi_schema(path_prefix="/api/v1/")["paths"].items()
    if "get" in methods
}
WITH_EVERY_NEED = {"/api/v1/explain": "gpu=GPU-A&"}


@pytest.mark.parametrize("path", PATHS)
def test_an_unknown_parameter_is_refused_with_those_that_there_are(api, path):
    answer = api.get(f"{path}?{WITH_EVERY_NEED.get(path, '')}nodes=typo")

    allowed = sorted(each["name"] for each in PATHS[path]["parameters"] if each["in"] == "query")
    ending = f"parameters are {', '.join(allowed)}" if allowed else "there are none here"
    assert (answer.status_code, answer.json()) == (
        422,
        {"error": f"there is no parameter 'nodes': {ending}", "field": "nodes"},
    )


def test_a_filter_of_another_list_is_not_answered_for_everything(api):
    answer = api.get("/api/v1/rates?node=gpu-01")

    assert answer.status_code == 422
    assert (
        answer.json()["error"]
        == "there is no parameter 'node': parameters are cursor, from, limit, range, to"
    )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=now-1h&from=now-7d", "from"),
        ("team=a&team=b", "team"),
        ("range=1h&from=now-7d", "range"),
    ],
)
def test_of_two_words_on_one_thing_none_is_ignored(api, query, field):
    answer = api.get(f"/api/v1/jobs?{query}")

    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize("path", ["/api/v1/budgets", "/api/v1/invoices/2026-10"])
def test_what_is_of_a_month_takes_no_other_period(api, path):
    answer = api.get(f"{path}?from=now-1h")

    assert (answer.status_code, answer.json()["field"]) == (422, "from")
    assert answer.json()["error"].endswith("parameters are cursor, limit")


@pytest.mark.parametrize("path", ["/api/v1/openapi.json", "/api/v1/docs", "/metrics"])
def test_edges_without_parameters_refuse_them(user, path):
    client = Client()
    client.force_login(user)

    answer = client.get(f"{path}?from=now-1h")

    assert (answer.status_code, answer.json()["field"]) == (422, "from")


def test_a_post_refuses_it_too(api):
    answer = api.post(
        "/api/v1/ledger/try-policy?from=now-1h&to=now&mood=good",
        '{"thresholds": {}}',
        content_type="application/json",
    )

    assert (answer.status_code, answer.json()["field"]) == (422, "mood")


def test_a_stranger_is_told_nothing_but_that(db):
    assert Client().get("/api/v1/nodes?nodes=typo").status_code == 401


def test_a_hostile_name_comes_back_bounded_and_as_text(api):
    answer = api.get("/api/v1/nodes", query_params={"\x1b[31m\u202e" + "x" * 5000: "1"})

    assert answer.status_code == 422
    assert len(answer.json()["field"]) == 100
    assert "\x1b" not in answer.json()["error"]
    assert "\u202e" not in answer.json()["error"]


def test_what_an_answer_links_to_is_accepted(api):
    from tests.costs.factories import a_gpu, a_job, an_entry

    an_entry(a_gpu(uuid="GPU-A"), "idle", job=a_job(key="slurm/della/1"), tier="certain")

    [job] = api.get("/api/v1/explain/figure?state=idle").json()["parts"]
    [gpu] = api.get(job["explain"]).json()["parts"]
    page = api.get("/api/v1/jobs?limit=1").json()

    assert api.get(gpu["explain"]).status_code == 200
    assert page["next_cursor"] is None
