"""A message says to do first what the page of the incident's finding does."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetwatch.alerts.breach import Breach, stored_breach
from fleetwatch.alerts.messaging.page_steps import advised
from fleetwatch.diagnosis.findings.inbox import explained
from fleetwatch.lib.intervals import Interval, to_ms
from tests.alerts.factories import a_breach
from tests.diagnosis import told
from tests.diagnosis.told import NOW

pytestmark = pytest.mark.django_db

CAUSE = "data_starved"
SINCE = NOW - timedelta(hours=2)
OF_THE_RULE = ("Fix: what holds of the cause",)


def stalled(subject: str = "slurm/della/7") -> Breach:
    """What a rule found of the job, with what the catalogue says to do."""
    breach = stored_breach(a_breach(subject, to_ms(SINCE)))
    return replace(breach, labels={"cause": (CAUSE,)}, actions=OF_THE_RULE)


def a_finding(cause: str = CAUSE):
    told.rate("2.00")
    told.cause(cause, start=SINCE)
    return told.finding(cause=cause)


def test_the_finding_of_the_job_and_cause_says_what_to_do():
    finding = a_finding()

    actions = advised(stalled(), NOW).actions

    page = explained(finding, Interval(SINCE, SINCE + timedelta(minutes=1)), now=NOW).advice
    assert page.first.text
    assert actions[0].startswith(f"Fix: {page.first.text}")
    assert actions != OF_THE_RULE


def test_without_a_finding_of_that_cause_the_rule_says_it():
    a_finding("idle_held")

    assert advised(stalled(), NOW).actions == OF_THE_RULE


def test_another_jobs_finding_says_nothing():
    a_finding()

    assert advised(stalled("slurm/della/8"), NOW).actions == OF_THE_RULE


@pytest.mark.parametrize("facts", [{"command": "scancel 7"}, {"kind": "gpu"}, {"labels": {}}])
def test_what_is_to_be_ended_or_is_no_job_or_has_no_cause_keeps_its_own(facts):
    a_finding()

    assert advised(replace(stalled(), **facts), NOW).actions == OF_THE_RULE
