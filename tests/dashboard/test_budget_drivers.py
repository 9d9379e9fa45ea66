"""An incident of a budget says what is left, and where the month's dollars went."""

from datetime import timedelta
from decimal import Decimal

import msgspec
import pytest

from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.alerts.factories import an_incident
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.test_incident_pages import breach
from tests.markup import tight

FACTS = {"spent_usd": "840.00", "budget_usd": "1000.00"}


def budget_incident(subject: str, **fields) -> Incident:
    told = breach(subject, kind="budget", has_cost=False, cost_usd=None, labels={}, facts=FACTS)
    rule = Rule.objects.get(condition="budget_spent")
    usual = {"opened_at": NOW - timedelta(minutes=30), "facts": msgspec.to_builtins(told)}
    return an_incident(rule, subject, **(usual | fields))


@pytest.fixture
def spending() -> None:
    """At $2 an hour each, of this month: ann's job 10 hours, of which 2 stalled for one cause;
    bob's 5; and 3 hours that no job held.
    """
    factories.rate("2.00")
    on = factories.node()
    ann = factories.job("slurm/della/1", user="ann", team="nlp")
    bob = factories.job("slurm/della/2", name="eval", user="bob", team="nlp")
    first = factories.gpu(on)
    second = factories.gpu(on, index=1)
    hours = [factories.entry(first, hours_ago=ago, held_by=ann) for ago in range(3, 11)]
    hours += [factories.entry(first, hours_ago=a, state="stalled", held_by=ann) for a in (1, 2)]
    hours += [factories.entry(second, hours_ago=ago, held_by=bob) for ago in range(1, 6)]
    hours += [factories.entry(second, hours_ago=ago, state="free") for ago in range(6, 9)]
    Entry.objects.bulk_create(hours)


def drivers(client, incident: Incident):
    return client.get(f"/incidents/{incident.pk}").context["drivers"]


def lines(client, incident: Incident) -> list[tuple[str, str, Decimal]]:
    return [(line.kind, line.name, line.usd) for line in drivers(client, incident).lines]


def test_the_fleets_names_its_largest_teams_and_jobs(admin, spending):
    told = lines(admin, budget_incident("fleet"))

    assert ("team", "nlp", Decimal(30)) in told
    assert [(name, usd) for kind, name, usd in told if kind == "job"] == [
        ("train", Decimal(20)),
        ("eval", Decimal(10)),
    ]
    assert [usd for kind, _, usd in told if kind == "cause of waste"] == [Decimal(4)]


def test_a_teams_names_its_people_and_each_leads_to_a_page_of_the_same_time(admin, spending):
    told = drivers(admin, budget_incident("teams/nlp"))

    people = [line for line in told.lines if line.kind == "person"]
    assert told.usd == 30
    assert [(line.name, line.usd) for line in people] == [("ann", 20), ("bob", 10)]
    assert people[0].share == Decimal(20) / 30
    assert "team=nlp&group_by=job&user=ann&from=" in people[0].address
    for line in told.lines:
        assert admin.get(line.address).status_code == 200


def test_what_is_over_is_told_to_its_end(admin, spending):
    ended_ms = to_ms(NOW) - 5 * HOUR_MS
    over = budget_incident("teams/nlp", ended_ms=ended_ms, resolved_at=NOW)
    facts = over.facts | {"until_ms": ended_ms, "since_ms": ended_ms - HOUR_MS}
    Incident.objects.update(facts=facts)

    assert drivers(admin, over).usd == 10  # 5 hours of ann's, none of bob's


def test_a_month_without_dollars_and_another_incident_name_nothing(admin):
    assert drivers(admin, budget_incident("teams/nlp")) is None
    assert CauseEntry.objects.count() == 0


def test_the_page_begins_with_what_is_left(admin, spending):
    page = tight(admin.get(f"/incidents/{budget_incident('teams/nlp').pk}").content.decode())

    assert "<dt>Left</dt>" in page
    assert "$160" in page
    assert "What drives it" in page
