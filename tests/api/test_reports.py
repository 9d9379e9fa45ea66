"""Reports in the read API."""

import pytest
from django.test import Client

from tests.reports.factories import a_fleet, computed, newest

pytestmark = pytest.mark.django_db
OCTOBER = "from=2026-10-01T00:00Z&to=2026-11-01T00:00Z"


def test_the_list_has_every_statement_of_the_period_without_its_lines(api):
    a_fleet()
    computed()

    rows = api.get(f"/api/v1/reports?{OCTOBER}").json()["rows"]
    [nlp] = api.get(f"/api/v1/reports?{OCTOBER}&kind=statement&subject=nlp").json()["rows"]

    assert sorted((row["kind"], row["subject"], row["cost_usd"]) for row in rows) == [
        ("fleet", "", 19.0),
        ("statement", "(none)", 1.0),
        ("statement", "nlp", 9.0),
        ("statement", "vision", 4.0),
    ]
    assert (nlp["version"], nlp["content"]) == (1, None)


def test_one_report_says_all_with_exact_amounts(api):
    a_fleet()
    computed()

    answer = api.get(f"/api/v1/reports/{newest('nlp').pk}").json()

    assert answer["content"]["total"]["cost_usd"] == "9.000000"
    assert [line["job"] for line in answer["content"]["lines"]] == [
        "slurm/della/1",
        "slurm/della/2",
    ]
    assert len(answer["inputs"]) == 64


@pytest.mark.parametrize("pk", ["1", "99999999999999999999"])
def test_a_report_that_is_not_there_is_404(api, pk):
    answer = api.get(f"/api/v1/reports/{pk}")

    assert (answer.status_code, answer.json()["field"]) == (404, "report_id")


def test_a_stranger_gets_401():
    a_fleet()
    computed()

    assert Client().get(f"/api/v1/reports/{newest().pk}").status_code == 401
