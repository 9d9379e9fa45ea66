"""The condition finding_saving: open findings that could save much."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import settings_of
from fleetwatch.diagnosis.cause import HELD
from fleetwatch.diagnosis.causes import FAILURES, OF_IDLE_JOBS
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import Interval, to_ms
from tests.alerts.factories import a_rule
from tests.diagnosis import told
from tests.diagnosis.told import DAY, NOW

pytestmark = pytest.mark.django_db

(FAULT,) = FAILURES
CAUSE = OF_IDLE_JOBS[HELD]


def rule(**fields):
    usual = {"condition": "finding_saving", "threshold": 2, "minutes": 60, "evaluated_ms": None}
    return a_rule(**(usual | fields))


def a_finding(*, low: float = 1.0, hours: float = 1, **fields) -> Finding:
    """One GPU at $2 an hour: `low` of the hour could have been saved at the least."""
    told.rate("2.00")
    start = NOW - timedelta(hours=4)
    told.cause(CAUSE, low=low, high=1.0, start=start)
    span = {"first_ms": to_ms(start), "last_ms": to_ms(start + timedelta(hours=hours))}
    return told.finding(cause=CAUSE, **(span | fields))


def states(at=NOW) -> list[str]:
    announcing.run(at)
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


@pytest.mark.parametrize(("low", "opened"), [(0.99, []), (1.0, ["firing"])])
def test_an_open_finding_is_told_that_saves_at_least_so_much_at_the_least(low, opened):
    rule()
    a_finding(low=low)

    assert states() == opened


def test_it_leads_to_its_page_and_says_whose_it_is_what_it_took_and_what_to_do():
    rule()
    finding = a_finding()

    states()

    breach = stored_breach(Incident.objects.get().facts)
    assert breach.path == f"/findings/{finding.pk}"
    assert breach.what.startswith("Nobody decided on “")
    assert breach.what.endswith("of slurm/della/7 “train”")
    assert (breach.owner, breach.label("cause"), breach.label("user")) == ("ann", CAUSE, "ann")
    assert (breach.cost_usd, breach.usd_per_hour) == (2, 2)
    assert breach.lines[0] == ("Could have saved", "$2.00 in 30 days")
    assert breach.actions[0].startswith("Fix: ")


@pytest.mark.parametrize("status", ["accepted", "dismissed", "fixed"])
def test_who_decides_resolves_it(status):
    rule()
    a_finding()
    assert states() == ["firing"]
    Finding.objects.update(status=status, decided_at=NOW + timedelta(minutes=30))

    assert states(NOW + timedelta(hours=1)) == ["resolved"]
    assert Incident.objects.get().resolution == "somebody decided on it"


def test_it_is_over_when_its_cause_was_not_seen_for_a_day_and_not_before():
    rule()
    finding = a_finding()
    assert states() == ["firing"]
    over_ms = finding.last_ms + 24 * 3_600_000

    assert states(NOW + timedelta(hours=20)) == ["firing"]
    assert states(NOW + timedelta(hours=21)) == ["resolved"]

    incident = Incident.objects.get()
    assert (incident.ended_ms, incident.resolution) == (over_ms, "its cause was not seen for a day")


def test_it_is_looked_at_each_hour():
    rule(evaluated_ms=to_ms(NOW - timedelta(minutes=50)))
    a_finding()

    assert states() == []
    assert states(NOW + timedelta(minutes=10)) == ["firing"]


def test_what_machines_hold_back_is_capacity_and_no_saving():
    rule(threshold=1)
    told.rate("2.00")
    gpu = told.gpu()
    told.capacity(FAULT, on=gpu)
    told.place(FAULT, node=gpu.node)

    assert states() == []


def test_the_back_test_says_what_was_told():
    watched = rule()
    a_finding()
    states()

    [trial] = back_test(
        condition(watched.condition), settings_of(watched), (), Interval(NOW - 2 * DAY, NOW)
    ).trials

    incident = Incident.objects.get()
    assert (trial.episode.subject, trial.episode.since_ms, trial.episode.fired_ms) == (
        incident.subject,
        incident.since_ms,
        incident.fired_ms,
    )
