"""Budgets of which a share is spent: one incident a month, from the hour in which it was reached."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.budgets.models import Budget, SpendDay
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from tests.alerts.factories import a_rule

pytestmark = pytest.mark.django_db
FIRST = datetime(2026, 11, 1, tzinfo=UTC)
NOVEMBER = date(2026, 11, 1)


def day(number: float) -> datetime:
    """So many days after the first of November began."""
    return FIRST + timedelta(days=number)


@pytest.fixture
def rule() -> Rule:
    return a_rule(
        name="Budget spent",
        condition="budget_spent",
        threshold=80,
        minutes=1,
        evaluated_ms=to_ms(day(0)),
    )


def a_budget(amount: str, *, team: str = "nlp", **fields) -> Budget:
    payer = Team.objects.get_or_create(slug=team, defaults={"name": "NLP"})[0] if team else None
    usual = {"month": NOVEMBER, "repeats": True, "created_at": FIRST, "created_by": "ann"}
    return Budget.objects.create(team=payer, amount=Decimal(amount), **(usual | fields))


def spent(usd_per_hour: float, *days: int, team: str = "nlp") -> None:
    """The team (all of the fleet's) spent that in each hour of these days."""
    for number in days:
        for kind, key in (("team", team), ("fleet", "")):
            SpendDay.objects.create(
                kind=kind,
                key=key,
                start=day(number),
                usd=Decimal(24 * usd_per_hour),
                wasted_usd=0,
                hours=[usd_per_hour] * 24,
                wasted_hours=[0.0] * 24,
            )


def states(number: float) -> list[tuple[str, str]]:
    announcing.run(day(number))
    return list(Incident.objects.order_by("pk").values_list("subject", "state"))


def newest():
    return stored_breach(Incident.objects.latest("pk").facts)


@pytest.mark.parametrize(
    ("budget", "state"),
    [("300.01", []), ("300", [("teams/nlp", "firing")]), ("299.99", [("teams/nlp", "firing")])],
)
def test_it_fires_at_the_share_that_the_rule_says(rule, budget, state):
    a_budget(budget)
    spent(10, 0)  # 240, which is 80 % of 300

    assert states(1.5) == states(1.5) == state


def test_it_says_when_how_much_of_what_and_what_to_do(rule):
    a_budget("600")
    spent(10, 0, 1)

    states(2.5)

    incident = Incident.objects.get()
    assert incident.since_ms == to_ms(day(2))
    breach = newest()
    assert breach.title == "budget · NLP spent 80 % of $600"
    # 480 of 600 at $240 a day: half a day; 28 of the month's 30 are left
    assert breach.lines == (
        ("Spent", "$480 until 00:00 UTC, 80 % of $600"),
        ("Left", "$120 of $600"),
        ("Spending", "$240 a day, mean of the last 2 full days"),
        (
            "At the run rate",
            "all of it spent on Tue 3 Nov, ≈ $7,200 by the month's end, $6,600 over the budget",
        ),
    )
    assert (breach.has_cost, breach.cost_usd, breach.usd_per_hour) == (False, None, None)
    assert breach.path == "/budgets/teams/nlp"
    assert breach.labels == {"team": ("nlp",)}
    assert incident.team.slug == "nlp"


@pytest.mark.parametrize(
    ("usd_per_hour", "spending", "then"),
    [
        ((10,), "$240 a day, the last full day", "≈ $7,200"),  # 240, and 29 days of 240
        # 480 within 7 days and 23 days of 68.571: 480 + 1,577.14
        ((10, 10, 0, 0, 0, 0, 0), "$68.57 a day, mean of the last 7 full days", "≈ $2,060"),
        # of 8 days the first counts no more: 480, and 22 days of 34.286: 1,234.29
        ((10, 10, 0, 0, 0, 0, 0, 0), "$34.29 a day, mean of the last 7 full days", "≈ $1,230"),
    ],
)
def test_without_a_forecast_the_month_ends_at_the_run_rate(rule, usd_per_hour, spending, then):
    a_budget("240")
    for number, usd in enumerate(usd_per_hour):
        spent(usd, number)

    states(len(usd_per_hour) + 0.1)

    lines = dict(newest().lines)
    assert lines["Spending"] == spending
    assert lines["At the run rate"].startswith(f"{then} by the month's end, ")


def test_a_run_rate_that_spends_nothing_lasts(rule):
    a_budget("250")
    spent(10, 0)
    spent(0, *range(1, 8))

    states(8.1)

    assert dict(newest().lines)["At the run rate"] == (
        "≈ $240 by the month's end: the budget lasts"
    )


def test_before_a_day_is_over_there_is_no_run_rate(rule):
    a_budget("100")
    spent(10, 0)

    states(0.6)

    assert "At the run rate" not in dict(newest().lines)


def test_a_budget_that_is_passed_has_nothing_left(rule):
    a_budget("200")
    spent(10, 0)

    states(1.5)

    lines = dict(newest().lines)
    assert lines["Spent"].startswith("$240 until 00:00 UTC, ")
    assert lines["Over"] == "$40.00 beyond $200, since Sun 1 Nov, 20:00 UTC (16 h 00 m)"
    assert "Left" not in lines
    # the 20th hour of the first day
    assert newest().title == "budget · NLP is $40.00 over its $200 budget as of 00:00 UTC"
    assert newest().does == "The budget of NLP is over by $40.00"
    assert Incident.objects.get().severity == "critical"
    assert lines["At the run rate"] == "≈ $7,200 by the month's end, $7,000 over the budget"
    assert (newest().left_usd, newest().budget_usd) == (0, 200)


def test_the_fleets_budget_has_its_own_page(rule):
    a_budget("300", team="")
    spent(10, 0)

    assert states(1.5) == [("fleet", "firing")]
    assert newest().path == "/budgets/fleet"
    assert newest().labels == {}


def test_a_budget_of_nobody_known_or_in_no_dollars_fires_not(rule):
    a_budget("300", currency="EUR")
    spent(10, 0)

    assert states(1.5) == []


def test_nothing_known_of_dollars_fires_nothing_and_ends_nothing(rule):
    a_budget("300")
    assert states(1.5) == []

    spent(10, 0)
    states(1.6)
    assert states(3) == [("teams/nlp", "firing")]


def test_a_higher_budget_ends_it(rule):
    a_budget("300")
    spent(10, 0)
    states(1.5)

    a_budget("500", created_at=day(1.6))

    assert states(1.7) == [("teams/nlp", "resolved")]


def test_without_a_budget_it_is_over(rule):
    a_budget("300")
    spent(10, 0)
    states(1.5)

    Budget.objects.all().delete()

    assert states(1.7) == [("teams/nlp", "resolved")]
    assert Incident.objects.get().resolution == "there is no budget any more"


def test_a_new_month_begins_anew(rule):
    a_budget("300")
    spent(10, 0)
    states(29)

    assert states(30 + 1 / 12) == [("teams/nlp", "resolved")]
    assert Incident.objects.get().ended_ms == to_ms(day(30))


def test_a_message_of_a_budget_that_is_passed_says_each_length_beside_what_it_is_of(rule):
    """80 % of it was spent 16 hours after the month began, all of it 20 hours after."""
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=day(0))
    a_budget("200")
    spent(10, 0)

    states(1.5)

    message = Delivery.objects.get().message
    assert message["title"] == newest().title
    over, beyond = "has been over 80 % for 20 h 00 m", "over all of it for 16 h 00 m, by $40.00"
    assert message["summary"] == f"The budget of NLP {over}, and {beyond}."
    labels = [each["label"] for each in message["buttons"]]
    assert labels == [
        *("Ack", "Snooze 4 h", "See what spends most", "The budget"),
        "Open in FleetWatch",
    ]
    assert dict(message["fields"])["Over 80 % for"] == "20 h 00 m, since Sun 1 Nov, 16:00 UTC"


def test_a_teams_hostile_name_is_one_line(rule):
    a_budget("300")
    Team.objects.update(name="<!channel>\n*x*")
    spent(10, 0)

    states(1.5)

    assert newest().title.startswith("budget · <!channel> *x* spent 80 % of")


def test_a_budget_that_is_set_when_most_of_it_is_spent_fires_with_the_next_look(rule):
    spent(10, 0)
    assert states(1.5) == []
    minute = 1 / 24 / 60

    a_budget("300", created_at=day(1.5 + minute / 2))

    assert states(1.5 + minute) == [("teams/nlp", "firing")]
    incident = Incident.objects.get()
    assert incident.since_ms == to_ms(day(1))
    assert not incident.is_late


def test_what_was_spent_before_the_rule_began_fires_as_it_begins(rule):
    Rule.objects.update(evaluated_ms=None)
    a_budget("200")
    spent(10, 0)

    assert states(29) == states(29.5) == [("teams/nlp", "firing")]


def test_what_was_evaluated_each_hour_is_what_the_back_test_says(rule):
    a_budget("1000")
    for number in range(5):
        spent(10, number)
    for hour in range(24 * 6):
        evaluate(day(hour / 24))

    trials = back_test(
        condition("budget_spent"), settings_of(rule), (), Interval(day(0), day(6))
    ).trials

    live = Incident.objects.order_by("-since_ms")
    assert [(each.subject, each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.subject, trial.episode.since_ms, trial.episode.fired_ms) for trial in trials
    ]
    assert [each.subject for each in live] == ["teams/nlp"]
