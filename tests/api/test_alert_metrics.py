"""What /metrics tells of incidents, findings, budgets and channels: also of what there is none of."""

import platform
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.conditions import CONDITIONS
from fleetwatch.alerts.models import Rule
from fleetwatch.api import alert_metrics
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.allocation_sources import KINDS
from fleetwatch.notify.models import Channel
from tests.alerts.factories import a_rule, an_incident
from tests.api.conftest import NOW
from tests.api.test_budgets import a_history
from tests.api.test_health import _key, samples
from tests.costs.factories import a_gpu, a_rate, an_entry, set_budget
from tests.diagnosis import told
from tests.notify.factories import slack_channel

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def of(found: dict, name: str) -> dict:
    """The series of that name, by their labels' values."""
    return {labels: value for (called, labels), value in found.items() if called == name}


def test_incidents_are_counted_by_rule_severity_and_state(api):
    rule = a_rule(name="Job idle", severity="critical")
    an_incident(rule, "a", opened_at=NOW - HOUR)
    an_incident(rule, "b", opened_at=NOW - HOUR)
    an_incident(rule, "c", opened_at=NOW - HOUR, state="acknowledged")
    an_incident(rule, "d", opened_at=NOW - HOUR, fired_ms=None, state="pending")
    an_incident(rule, "e", opened_at=NOW - HOUR, resolved_at=NOW)

    found = of(samples(api), "fleetwatch_incidents")

    assert found == {
        frozenset({"Job idle", "critical", "firing"}): 2,
        frozenset({"Job idle", "critical", "acknowledged"}): 1,
        frozenset({"Job idle", "critical", "pending"}): 1,
    }


def test_a_rule_without_incidents_is_at_zero_and_not_away(api):
    found = of(samples(api), "fleetwatch_incidents")

    assert set(found.values()) == {0}
    assert len(found) == 3 * len(CONDITIONS)


def test_no_more_rules_are_told_than_a_series_each_can_bear(api, monkeypatch):
    monkeypatch.setattr(alert_metrics, "MAX_RULES", 2)
    for name in ("one", "two", "three"):
        Rule.objects.create(name=name, condition="job_idle", threshold=0, minutes=1, created_at=NOW)

    assert len(of(samples(api), "fleetwatch_incidents")) == 2 * 3


def test_findings_are_counted_by_cause_and_by_what_was_decided(api):
    told.finding(told.job("a/b/1"))
    told.finding(told.job("a/b/2"), status="dismissed")
    told.finding(told.job("a/b/3"), status="snoozed", snoozed_until=NOW + HOUR)
    told.finding(told.job("a/b/4"), status="snoozed", snoozed_until=NOW)

    found = of(samples(api), "fleetwatch_findings")

    counts = {status: found[frozenset({"idle_held", status})] for status in Finding.Status.values}
    assert counts == {"open": 2, "accepted": 0, "snoozed": 1, "dismissed": 1, "fixed": 0}
    assert found[frozenset({"hung", "open"})] == 0
    assert len(found) == len(BY_CODE) * 5


def test_a_budget_tells_how_much_of_it_is_spent_and_expected_to_go(api):
    team = a_history()
    for whose, usd in ((team, 1000), (None, 10)):
        set_budget(whose, NOW.date().replace(day=1), Decimal(usd), repeats=True, now=NOW, by="ann")
    gpu = a_gpu()
    a_rate("5", gpu=gpu)
    an_entry(gpu, "free", 3_600_000, start=NOW - 2 * HOUR)

    found = samples(api)

    spent = of(found, "fleetwatch_budget_spent_ratio")
    assert spent == {frozenset({"fleet", ""}): 0.5, frozenset({"team", "nlp"}): 0}
    # of the fleet there is no forecast; at the end of the 2nd 28 days of $48 are to come
    expected = of(found, "fleetwatch_budget_forecast_ratio")
    assert expected == {frozenset({"team", "nlp"}): pytest.approx(1.344)}


def test_without_a_budget_there_is_no_ratio(api):
    Team.objects.create(slug="nlp", name="NLP")

    found = samples(api)

    assert of(found, "fleetwatch_budget_spent_ratio") == {}
    assert of(found, "fleetwatch_budget_forecast_ratio") == {}


def test_a_channel_that_an_error_switched_off_is_down(api):
    slack_channel("https://hooks.example/secret", name="ops")
    slack_channel("https://hooks.example/secret", name="dead")
    Channel.objects.filter(name="dead").update(is_enabled=False, disabled_reason="404")

    found = of(samples(api), "fleetwatch_channel_up")

    assert found == {frozenset({"ops", "slack"}): 1, frozenset({"dead", "slack"}): 0}


def test_every_kind_of_job_source_is_there_before_anybody_has_it(api):
    found = of(samples(api), "fleetwatch_job_sources")

    assert found == {
        frozenset({kind, ok}): 0 for kind in (*KINDS, "other") for ok in ("true", "false")
    }


def test_it_says_which_version_it_is(api):
    found = samples(api)

    assert found[_key("fleetwatch_build_info", "1.0.0", platform.python_version())] == 1
