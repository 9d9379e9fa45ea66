"""What of somebody's waste is agreed as not waste counts for no rule, and is said beside what does:
in a back-test, on the incident that the rule opens, and in its message.
"""

from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.alerts.back_test import Peak
from fleetwatch.alerts.measuring import waste_rates
from fleetwatch.alerts.messaging.messages import Case, Setting, of_group
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.alerts.services import evaluate
from fleetwatch.diagnosis.findings import agreed_waste
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms
from tests.alerts.test_money_conditions import (
    a_money_rule,
    back_tested,
    hour,
    newest,
    states,
    tried,
    wasted,
)
from tests.diagnosis import told

pytestmark = pytest.mark.django_db


def diagnosed(user: str, *hours: float, cause: str = "idle_held") -> None:
    """Diagnosis explains the waste of these hours."""
    job = Job.objects.get(user=user)
    on = GPU.objects.get(node__name=f"node-{user}")
    for number in hours:
        told.cause(cause, of=job, on=on, start=hour(number))


def agreed(user: str, *hours: float, status: str = "dismissed") -> None:
    """Diagnosis explains the waste of these hours, and somebody decided about it."""
    diagnosed(user, *hours)
    job = Job.objects.get(user=user)
    told.finding(job, status=status, first_ms=to_ms(hour(0)), last_ms=to_ms(hour(12)))


def exempt(user: str) -> None:
    """An operator approved what this user's jobs do."""
    Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "user", "values": [user], "is_not": False}],
        starts_at=hour(0),
        ends_at=hour(90),
        reason="agreed",
        created_at=hour(0),
    )


def nlp_wastes(*hours: float) -> None:
    """$20 an hour: $10 of Ana's, and of Ben's $10 that nobody agreed to."""
    wasted("ana", *hours)
    wasted("ben", *hours)
    agreed("ben", *hours, status="open")


def test_a_row_of_a_back_test_and_the_incident_say_the_same_of_what_is_agreed():
    """NLP wasted $20 an hour for two hours, of which Ana's $10 an hour are agreed."""
    rule = a_money_rule("waste_of_team", 10, minutes=60)
    nlp_wastes(1, 2)
    agreed("ana", 1, 2)

    assert states(3.2) == [("nlp", "firing")]
    [row] = tried(rule, 0, 3.2)
    live = newest()

    assert (row.breach.cost_usd, row.breach.agreed_usd) == (Decimal(20), Decimal(20))
    assert (live.cost_usd, live.agreed_usd) == (Decimal(20), Decimal(20))
    assert live.title == "waste · NLP $10.00/h"
    assert dict(live.lines)["Agreed as not waste"] == "$20.00 of the $40.00, not counted"


@pytest.mark.parametrize(("status", "fires"), [("dismissed", False), ("open", True)])
def test_what_is_agreed_counts_for_no_threshold_live_or_in_a_back_test(status, fires):
    rule = a_money_rule("waste_of_team", 10.01, minutes=60)
    nlp_wastes(1, 2)
    agreed("ana", 1, 2, status=status)

    assert states(3.2) == ([("nlp", "firing")] if fires else [])
    assert [row.breach.cost_usd for row in tried(rule, 0, 3.2)] == [Decimal(40)] * fires
    assert back_tested(rule, 0, 3.2).peak == (None if fires else Peak(10.0, "NLP", to_ms(hour(1))))


def test_what_an_exemption_is_about_counts_for_no_threshold():
    rule = a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)
    agreed("ana", 1, 2, status="open")
    exempt("ana")

    assert (states(3.2), len(tried(rule, 0, 3.2))) == ([], 0)


@pytest.mark.parametrize("name", ["waste_of_team", "waste_of_person"])
def test_an_incident_whose_waste_is_agreed_as_not_waste_since_is_over_and_says_so(name):
    a_money_rule(name, 10, minutes=60)
    wasted("ana", 1, 2)
    agreed("ana", 1, 2, status="open")
    states(3.2)

    Finding.objects.update(status="dismissed")

    [(_, state)] = states(3.5)
    incident = Incident.objects.get()
    assert (state, incident.ended_ms) == ("resolved", to_ms(hour(3)))
    assert incident.events.latest("pk").text == waste_rates.AGREED


def test_an_incident_goes_on_where_what_nobody_agreed_to_is_enough():
    a_money_rule("waste_of_team", 10, minutes=60)
    nlp_wastes(1, 2)
    agreed("ana", 1, 2, status="open")
    states(3.2)
    assert newest().cost_usd == Decimal(40)

    Finding.objects.filter(job__user="ana").update(status="dismissed")

    assert states(3.5) == [("nlp", "firing")]
    assert (newest().cost_usd, newest().agreed_usd) == (Decimal(20), Decimal(20))


def test_while_an_hour_waits_for_diagnosis_it_accuses_nobody_where_people_agreed_to_something():
    """Whether what Ana wasted is agreed is known once it is diagnosed; after two hours it counts as
    it is.
    """
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("eve", 0)
    agreed("eve", 0)
    wasted("ana", 1, 2)

    assert states(3.2) == []
    assert states(5) == [("ana", "firing")]


@pytest.mark.parametrize("name", ["waste_of_team", "waste_of_person"])
def test_people_are_told_of_what_had_to_wait_for_diagnosis(name):
    """Its hours are as old as that by then, and no telemetry came late."""
    a_money_rule(name, 10, minutes=60)
    wasted("eve", 0)
    agreed("eve", 0)
    wasted("ana", 1, 2, 3, 4)

    for quarter in range(3 * 4, 6 * 4):
        states(quarter / 4 + 0.05)

    [incident] = Incident.objects.all()
    assert (incident.is_late, incident.muted) == (False, "")


def test_what_was_evaluated_each_half_hour_is_what_the_back_test_says_where_something_is_agreed():
    rule = a_money_rule("waste_of_team", 15, minutes=120)
    nlp_wastes(1, 2, 3, 5, 6, 7, 8)
    wasted("eve", *range(12), state="useful")
    agreed("ana", 2, 6)
    diagnosed("ana", 1, 3, 5, 7, 8, cause="partial_idle")
    for half in range(24):
        evaluate(hour(half / 2))

    live = Incident.objects.order_by("-since_ms")
    trials = tried(rule, 0, 11.2)
    assert [(each.subject, each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.subject, trial.episode.since_ms, trial.episode.fired_ms) for trial in trials
    ]
    assert [each.since_ms for each in live] == [to_ms(hour(7))]


def test_a_message_of_the_incident_says_what_is_agreed():
    a_money_rule("waste_of_team", 10, minutes=60)
    nlp_wastes(1, 2)
    agreed("ana", 1)
    diagnosed("ana", 2, cause="partial_idle")
    states(3.2)
    incident = Incident.objects.get()

    setting = Setting("Waste", "warning", ZoneInfo("UTC"), hour(4), "http://fleet")
    message = of_group([Case(incident.pk, newest(), "", "")], setting)

    assert ("Agreed as not waste", "$10.00 of the $40.00, not counted") in message.fields


@pytest.mark.parametrize("status", ["open", "accepted", "fixed"])
def test_what_nobody_called_no_waste_is_agreed_by_nobody(status):
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)
    agreed("ana", 1, 2, status=status)

    states(3.2)

    assert newest().agreed_usd is None
    assert "Agreed as not waste" not in dict(newest().lines)


def test_what_is_agreed_is_of_the_rows_own_hours_also_where_there_are_many(monkeypatch):
    """Of three spells of NLP's Ana's part of the second alone is agreed."""
    rule = a_money_rule("waste_of_team", 10, minutes=60)
    nlp_wastes(1, 4, 7)
    wasted("eve", *range(12), state="useful")
    agreed("ana", 4)

    few = [(row.breach.cost_usd, row.breach.agreed_usd) for row in tried(rule, 0, 12)]
    monkeypatch.setattr(agreed_waste, "FEW", 0)
    many = [(row.breach.cost_usd, row.breach.agreed_usd) for row in tried(rule, 0, 12)]

    assert few == [(Decimal(20), None), (Decimal(10), Decimal(10)), (Decimal(20), None)]
    assert few == many


def test_where_nobody_agreed_to_anything_nothing_more_is_read(monkeypatch):
    monkeypatch.setattr(waste_rates, "agreed_within", lambda *_, **__: pytest.fail("read"))
    rule = a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)

    assert len(tried(rule, 0, 4)) == 1


def test_an_exemption_that_is_about_nothing_of_it_leaves_all_of_it_as_waste(monkeypatch):
    """Of many spells nothing is agreed: another user's jobs are exempt."""
    monkeypatch.setattr(agreed_waste, "FEW", 0)
    rule = a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 4)
    wasted("eve", *range(6), state="useful")
    agreed("ana", 1, 4, status="open")
    exempt("bob")

    assert [row.breach.agreed_usd for row in tried(rule, 0, 6)] == [None, None]
