"""Budgets, forecasts and anomalies in the read API."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.budgets import outlooks
from fleetwatch.budgets.models import Anomaly, SpendDay
from tests.api.conftest import NOW
from tests.costs.factories import set_budget

pytestmark = pytest.mark.django_db


def a_history() -> Team:
    """Four weeks of $48 a day before the 3rd of November."""
    team = Team.objects.create(slug="nlp", name="NLP")
    SpendDay.objects.bulk_create(
        SpendDay(
            kind="team",
            key="nlp",
            start=NOW - timedelta(days=day),
            usd=48,
            wasted_usd=0,
            hours=[2.0] * 24,
            wasted_hours=[0.0] * 24,
        )
        for day in range(1, 29)
    )
    outlooks.make(NOW, is_whole=True)
    return team


def test_a_teams_month_with_its_budget_and_its_end(api):
    set_budget(
        a_history(), NOW.date().replace(day=1), Decimal(1000), repeats=True, now=NOW, by="ann"
    )

    fleet, nlp = api.get("/api/v1/budgets").json()["rows"]

    assert (fleet["team"], fleet["expected_usd"], fleet["budget_usd"], fleet["risk"]) == (
        "",
        None,
        None,
        "no budget",
    )
    # nothing of this month is in the ledger; at the end of the 2nd 28 days are to come
    assert (nlp["spent_usd"], nlp["expected_usd"], nlp["budget_usd"], nlp["risk"]) == (
        0.0,
        28 * 48,
        1000.0,
        "will pass",
    )
    assert nlp["known_until"] == "2026-11-03T00:00:00Z"


def test_a_forecast_by_days_with_what_it_was_worth(api):
    a_history()

    answer = api.get("/api/v1/forecast?team=nlp").json()

    assert len(answer["steps"]) == 28
    assert answer["steps"][0] | {"low_usd": 0, "high_usd": 0} == {
        "until": "2026-11-04T00:00:00Z", "expected_usd": 48.0, "low_usd": 0, "high_usd": 0,
    }  # fmt: skip
    assert answer["tried"][0] == {"days_ahead": 1, "median_error": 0.0, "tries": 21}


def test_a_team_that_is_not_there_is_404(api):
    answer = api.get("/api/v1/forecast?team=nobody")

    assert (answer.status_code, answer.json()["field"]) == (404, "team")


def test_anomalies_of_the_period_by_kind(api):
    for kind, key in (("team", "nlp"), ("node", "gpu-01")):
        Anomaly.objects.create(
            kind=kind, key=key, metric="cost", start=NOW - timedelta(hours=5),
            end=NOW - timedelta(hours=1), usd=60, usual_usd=10,
            spreads=7.5, movers=[{"kind": "job", "key": "a/b/1", "label": "train", "usd": "50"}],
            found_at=NOW,
        )  # fmt: skip

    [row] = api.get("/api/v1/anomalies?kind=node").json()["rows"]

    assert (row["key"], row["excess_usd"], row["is_open"]) == ("gpu-01", 50.0, True)
    assert row["movers"] == [{"kind": "job", "key": "a/b/1", "label": "train", "usd": 50.0}]
    assert (
        api.get("/api/v1/anomalies?from=2026-10-01T00:00Z&to=2026-10-02T00:00Z").json()["rows"]
        == []
    )
