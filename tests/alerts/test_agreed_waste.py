"""What of somebody's waste is agreed as not waste stands with it: in a back-test, on the incident
that the rule opens, and in its message.
"""

from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.alerts.measuring import waste_rates
from fleetwatch.alerts.messaging.messages import Case, Setting, of_group
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.diagnosis.findings import agreed_waste
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms
from tests.alerts.test_money_conditions import (
    a_money_rule,
    hour,
    newest,
    states,
    tried,
    wasted,
)
from tests.diagnosis import told

pytestmark = pytest.mark.django_db


def agreed(user: str, *hours: float, status: str = "dismissed") -> None:
    """Diagnosis explains the waste of these hours, and somebody decided about it."""
    job = Job.objects.get(user=user)
    on = GPU.objects.get(node__name=f"node-{user}")
    for number in hours:
        told.cause(of=job, on=on, start=hour(number))
    told.finding(job, status=status, first_ms=to_ms(hour(0)), last_ms=to_ms(hour(12)))


def test_a_row_of_a_back_test_and_the_incident_say_the_same_of_what_is_agreed():
    """NLP wasted $20 an hour for two hours, of which Ana's $10 an hour are agreed."""
    rule = a_money_rule("waste_of_team", 15, minutes=60)
    wasted("ana", 1, 2)
    wasted("ben", 1, 2)
    agreed("ana", 1, 2)

    assert states(3.2) == [("nlp", "firing")]
    [row] = tried(rule, 0, 3.2)
    live = newest()

    assert (row.breach.cost_usd, row.breach.agreed_usd) == (Decimal(40), Decimal(20))
    assert (live.cost_usd, live.agreed_usd) == (Decimal(40), Decimal(20))
    assert dict(live.lines)["Agreed as not waste"] == "$20.00 of the $40.00"


def test_a_message_of_the_incident_says_what_is_agreed():
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)
    agreed("ana", 1)
    states(3.2)
    incident = Incident.objects.get()

    setting = Setting("Waste", "warning", ZoneInfo("UTC"), hour(4), "http://fleet")
    message = of_group([Case(incident.pk, newest(), "", "")], setting)

    assert ("Agreed as not waste", "$10.00 of the $20.00") in message.fields


@pytest.mark.parametrize("status", ["open", "accepted", "fixed"])
def test_what_nobody_called_no_waste_is_agreed_by_nobody(status):
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)
    agreed("ana", 1, 2, status=status)

    states(3.2)

    assert newest().agreed_usd is None
    assert "Agreed as not waste" not in dict(newest().lines)


def test_what_is_agreed_is_of_the_rows_own_hours_also_where_there_are_many(monkeypatch):
    """Of three spells of Ana's the second alone is agreed; Ben's are his own."""
    rule = a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 4, 7)
    wasted("ben", 4)
    wasted("eve", *range(9), state="useful")
    agreed("ana", 4)

    few = [(row.breach.owner, row.breach.agreed_usd) for row in tried(rule, 0, 9)]
    monkeypatch.setattr(agreed_waste, "FEW", 0)
    many = [(row.breach.owner, row.breach.agreed_usd) for row in tried(rule, 0, 9)]

    assert sorted(few, key=str) == [
        ("ana", Decimal(10)),
        ("ana", None),
        ("ana", None),
        ("ben", None),
    ]
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
    agreed("ana", 1, status="open")
    matchers = [{"label": "user", "values": ["bob"], "is_not": False}]
    Silence.objects.create(
        kind="exemption",
        matchers=matchers,
        starts_at=hour(0),
        ends_at=hour(90),
        reason="agreed",
        created_at=hour(0),
    )

    assert [row.breach.agreed_usd for row in tried(rule, 0, 6)] == [None, None]
