"""What is expected of a budget, what is unusual, and who wastes how much an hour."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import User
from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import Watch, stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.measuring.waste_rates import wasted_in
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.budgets.models import Anomaly, Outlook
from fleetwatch.costs.models import Rate
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from tests.alerts.factories import a_rule
from tests.alerts.people import is_named
from tests.alerts.test_budget_spent import a_budget, spent
from tests.costs.factories import a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db
FIRST = datetime(2026, 11, 1, tzinfo=UTC)
HOUR_MS = 3_600_000


def hour(number: float) -> datetime:
    """So many hours after the first of November began."""
    return FIRST + timedelta(hours=number)


def a_money_rule(name: str, threshold: float, minutes: float = 60):
    began_ms = to_ms(hour(0))
    return a_rule(
        name=name, condition=name, threshold=threshold, minutes=minutes, evaluated_ms=began_ms
    )


def states(number: float) -> list[tuple[str, str]]:
    announcing.run(hour(number))
    return list(Incident.objects.order_by("pk").values_list("subject", "state"))


def newest():
    return stored_breach(Incident.objects.latest("pk").facts)


def back_tested(rule, start: float, end: float, scope=()):
    interval = Interval(hour(start), hour(end))
    return back_test(condition(rule.condition), settings_of(rule), scope, interval)


def tried(rule, start: float, end: float):
    return back_tested(rule, start, end).trials


def an_outlook(usd_per_hour: float, *, made: float, kind: str = "team", key: str = "nlp") -> None:
    Outlook.objects.all().delete()
    Outlook.objects.create(
        kind=kind,
        key=key,
        origin=hour(24),
        made_at=hour(made),
        days=30,
        has_shifted=False,
        usd_per_hour=[[usd_per_hour] * 24] * 7,
        low=[-0.1] * 31,
        high=[0.1] * 31,
        median_error=[None] * 31,
        tries=[0] * 31,
        is_whole=True,
    )


def test_with_a_forecast_it_says_what_that_expects_and_no_other_pace():
    """$240 of $250 were spent on the first day at $10 an hour; expected are $2 an hour of the 29
    days that are left.
    """
    a_money_rule("budget_spent", 80)
    a_budget("250")
    spent(10, 0)
    an_outlook(2, made=24.1)

    announcing.run(hour(26))

    breach = stored_breach(Incident.objects.get().facts)
    lines = dict(breach.lines)
    assert "At the run rate" not in lines
    assert lines["Forecast"].startswith("as of 00:00 UTC ≈ $1,6")
    assert lines["Forecast"].endswith("over the budget")
    assert breach.facts["spent_until_ms"] == to_ms(hour(24))


@pytest.mark.parametrize(
    ("budget", "words"), [("1700", "the budget may be passed"), ("2000", "the budget lasts")]
)
def test_a_budget_within_the_forecasts_range_may_be_passed(budget, words):
    """$1,632 are expected, $1,493 to $1,771."""
    a_money_rule("budget_spent", 10)
    a_budget(budget)
    spent(10, 0)
    an_outlook(2, made=24.1)

    announcing.run(hour(26))

    assert dict(stored_breach(Incident.objects.get().facts).lines)["Forecast"].endswith(words)


# 240 are spent, nothing in the 25th hour; 695 hours at 1 are to come
@pytest.mark.parametrize(("budget", "fires"), [("935.01", False), ("935", True), ("900", True)])
def test_a_forecast_that_reaches_the_budget(budget, fires):
    a_money_rule("budget_forecast", 100)
    a_budget(budget)
    spent(10, 0)
    an_outlook(1, made=24.1)

    assert ("teams/nlp", "firing") not in states(24.5)
    assert states(25.2) == ([("teams/nlp", "firing")] if fires else [])


# $240 are spent
@pytest.mark.parametrize(("budget", "fires"), [("240.01", True), ("240", False), ("230", False)])
def test_a_budget_that_is_spent_already_has_no_incident_of_its_forecast(budget, fires):
    a_money_rule("budget_forecast", 100)
    a_budget(budget)
    spent(10, 0)
    an_outlook(1, made=24.1)

    assert states(25.2) == ([("teams/nlp", "firing")] if fires else [])


# added up as floats, 24 hours of these are a hair below the budget
@pytest.mark.parametrize(("usd_per_hour", "budget"), [(0.7, "16.80"), (3.3, "79.20")])
def test_a_budget_that_is_spent_to_the_cent_is_spent(usd_per_hour, budget):
    a_money_rule("budget_forecast", 100)
    a_money_rule("budget_spent", 100)
    a_budget(budget)
    spent(usd_per_hour, 0)
    an_outlook(1, made=24.1)

    assert states(25.2) == [("teams/nlp", "firing")]
    assert Incident.objects.get().rule.condition == "budget_spent"


def test_an_incident_of_a_forecast_is_over_once_all_of_the_budget_is_spent():
    a_money_rule("budget_forecast", 100)
    a_budget("300")
    spent(10, 0)
    an_outlook(1, made=24.1)
    states(25.2)
    an_outlook(1, made=48.1)
    spent(10, 1)

    assert states(49) == [("teams/nlp", "resolved")]
    assert Incident.objects.get().resolution.startswith("all of the budget is spent")


# the forecast is of 24:06, the rule asks for an hour
@pytest.mark.parametrize(
    ("seen", "expected"), [(30.9, []), (31, [("teams/nlp", "firing")])], ids=["before", "after"]
)
def test_a_forecast_is_above_a_budget_since_the_budget_was_set_at_most(seen, expected):
    a_money_rule("budget_forecast", 100)
    spent(10, 0)
    an_outlook(1, made=24.1)
    a_budget("900", created_at=hour(30))

    fired = [row for row in states(seen) if row[1] != "pending"]

    assert fired == expected
    assert newest().since_ms == to_ms(hour(30))


def test_a_budget_that_is_set_anew_leaves_what_fires_as_it_began():
    a_money_rule("budget_forecast", 100)
    a_budget("900")
    spent(10, 0)
    an_outlook(1, made=24.1)
    states(25.2)

    a_budget("800", created_at=hour(30))

    assert states(31) == [("teams/nlp", "firing")]
    assert newest().since_ms == to_ms(hour(24.1))


def test_a_forecast_above_a_budget_is_pending_from_its_first_minutes_on():
    a_money_rule("budget_forecast", 100)
    a_budget("900")
    spent(10, 0)
    an_outlook(1, made=24.1)

    assert states(24.2) == [("teams/nlp", "pending")]
    assert Incident.objects.get().fires_at == hour(25.1)


def test_an_old_forecast_is_none():
    a_money_rule("budget_forecast", 100)
    a_budget("300")
    spent(10, 0)
    an_outlook(1, made=24.1)

    assert states(24 + 49) == []


def test_a_forecast_within_the_budget_ends_it_and_it_says_what_is_expected():
    a_money_rule("budget_forecast", 100)
    a_budget("900")
    spent(10, 0)
    an_outlook(1, made=24.1)
    states(25.2)
    breach = newest()
    assert breach.title == "budget · NLP is expected to spend $935 of $900"
    assert breach.path == "/budgets/teams/nlp"

    an_outlook(0.5, made=48)

    assert states(48.5) == [("teams/nlp", "resolved")]


# expected are 576 of 900: 64 %
@pytest.mark.parametrize(("clear", "state"), [(63, "firing"), (65, "resolved")])
def test_a_forecast_is_within_the_budget_again_below_the_clear_value(clear, state):
    Rule.objects.filter(pk=a_money_rule("budget_forecast", 100).pk).update(clear=clear)
    a_budget("900")
    spent(10, 0)
    an_outlook(1, made=24.1)
    states(25.2)

    an_outlook(0.5, made=48)

    assert states(48.5) == [("teams/nlp", state)]


def test_a_forecast_has_no_history():
    rule = a_money_rule("budget_forecast", 100)

    with pytest.raises(RefusedFieldError, match="Only the newest forecast"):
        tried(rule, 0, 24)


def an_anomaly(start: float, end: float, usd: str, usual: str, **fields) -> Anomaly:
    usual_fields = {"kind": "team", "key": "nlp", "metric": "cost", "spreads": 7.0}
    return Anomaly.objects.create(
        start=hour(start),
        end=hour(end),
        usd=Decimal(usd),
        usual_usd=Decimal(usual),
        found_at=hour(end + 1),
        **(usual_fields | fields),
    )


@pytest.mark.parametrize(("usd", "fires"), [("199.99", False), ("200", True), ("500", True)])
def test_so_many_dollars_more_than_usual(usd, fires):
    a_money_rule("unusual_spending", 100)
    an_anomaly(3, 5, usd, "100")

    assert states(6.2) == ([("team/nlp/cost", "firing")] if fires else [])


def test_less_than_usual_is_no_alarm_nor_are_models_and_nodes():
    a_money_rule("unusual_spending", 0)
    an_anomaly(3, 5, "0", "500")
    an_anomaly(3, 5, "900", "500", kind="node", key="node-1")

    assert states(6.2) == []


def test_it_names_what_moved_most_and_is_over_when_it_is_usual_again():
    a_money_rule("unusual_spending", 100)
    movers = [{"kind": "user", "key": "ana", "label": "ana\n<!here>", "usd": "300"}]
    an_anomaly(3, 5, "500", "100", movers=movers)
    states(6.2)
    breach = newest()
    assert dict(breach.lines)["Users that moved most"] == "ana <!here> $300"
    assert (breach.cost_usd, breach.usd_per_hour) == (Decimal(400), Decimal(200))
    assert breach.path == "/budgets/teams/nlp"

    assert states(8.3) == [("team/nlp/cost", "resolved")]


def test_what_was_evaluated_each_quarter_is_what_the_back_test_says_of_anomalies():
    rule = a_money_rule("unusual_spending", 100)
    an_anomaly(3, 5, "500", "100")
    an_anomaly(10, 11, "500", "100", kind="fleet", key="")
    for quarter in range(5 * 4, 15 * 4):
        evaluate(hour(quarter / 4))

    live = Incident.objects.order_by("-since_ms")
    assert [(each.subject, each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.subject, trial.episode.since_ms, trial.episode.fired_ms)
        for trial in tried(rule, 0, 15)
    ]
    assert live.count() == 2


def wasted(user, *hours, usd="10", state="idle", cluster="della", ms=HOUR_MS, **fields) -> None:
    """The user's GPU was idle in these hours, at such a price."""
    gpu = a_gpu(model=f"model of {user}", node=f"node-{user}")
    if usd and not Rate.objects.filter(gpu_model=gpu.model).exists():
        a_rate(usd, gpu=gpu)
    job = a_job(user=user, team="nlp", scheduler="slurm", cluster=cluster, start_ms=to_ms(hour(0)))
    for number in hours:
        tier = {"idle": "certain"}.get(state, "")
        an_entry(gpu, state, ms, start=hour(number), job=job, tier=tier, **fields)


@pytest.mark.parametrize(("usd", "fires"), [("9.99", False), ("10", True), ("11", True)])
def test_a_person_who_wastes_so_much_an_hour(usd, fires):
    a_money_rule("waste_of_person", 10, minutes=120)
    wasted("ana", 1, 2, usd=usd)

    assert states(3.2) == ([("ana", "firing")] if fires else [])


def test_it_says_who_and_how_much():
    a_money_rule("waste_of_person", 10, minutes=120)
    wasted("ana", 1, 2)

    states(3.2)

    breach = newest()
    assert (breach.cost_usd, breach.usd_per_hour) == (Decimal(20), Decimal(10))
    assert breach.path == "/waste?user=ana&group_by=job"
    assert (breach.label("user"), breach.label("team")) == ("ana", "nlp")
    assert (breach.label("scheduler"), breach.label("cluster")) == ("slurm", "della")


def test_what_nobody_saw_or_has_no_rate_neither_fires_nor_ends_it():
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2, 3)
    wasted("ben", 4, usd="")
    states(4.2)

    wasted("ana", 4, state="unobserved")

    assert states(5.2) == [("ana", "firing")]


@pytest.mark.parametrize(
    ("owners", "fires"),
    [
        ({}, True),  # nobody has an account: one name is one person
        ({"della": "ana", "tiger": "ana"}, True),
        ({"": "ana"}, True),
        ({"della": "ana", "tiger": "anabel"}, False),
        ({"": "ana", "tiger": "anabel"}, False),
        ({"della": "ana"}, False),
    ],
)
def test_nobody_is_accused_of_what_runs_under_a_name_of_several_people(owners, fires):
    a_money_rule("waste_of_person", 10, minutes=120)
    users = {name: User.objects.create(username=name) for name in set(owners.values())}
    for cluster, name in owners.items():
        is_named(users[name], "unix", "ana", cluster=cluster)
    wasted("ana", 1, 2, usd="5")
    wasted("ana", 1, 2, usd="5", cluster="tiger")

    assert states(3.2) == ([("ana", "firing")] if fires else [])


def test_a_name_that_turns_out_to_be_several_peoples_ends_it():
    a_money_rule("waste_of_person", 10, minutes=120)
    wasted("ana", 1, 2, usd="5")
    wasted("ana", 1, 2, usd="5", cluster="tiger")
    states(3.2)

    is_named(User.objects.create(username="anabel"), "unix", "ana", cluster="tiger")

    assert states(3.5) == [("ana", "resolved")]
    assert Incident.objects.get().events.latest("pk").text.endswith("run under this name")


def test_who_wastes_less_ends_it():
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)
    states(3.2)

    wasted("ben", 3, state="useful")

    assert states(4.2) == [("ana", "resolved")]


# an hour at $10 is $6
@pytest.mark.parametrize(
    ("clear", "state"), [(None, "resolved"), (6, "firing"), (6.01, "resolved")]
)
def test_who_wastes_less_goes_on_down_to_the_clear_value(clear, state):
    Rule.objects.filter(pk=a_money_rule("waste_of_person", 10).pk).update(clear=clear)
    wasted("ana", 1, 2)
    states(3.2)

    wasted("ana", 3, ms=HOUR_MS * 6 // 10)

    assert states(4.2) == [("ana", state)]


def test_an_hour_that_is_not_posted_says_nothing():
    a_money_rule("waste_of_person", 10, minutes=60)
    wasted("ana", 1, 2)
    states(3.2)

    assert states(6.2) == [("ana", "firing")]


def test_a_team_is_told_as_a_team():
    a_money_rule("waste_of_team", 15, minutes=60)
    wasted("ana", 1, 2)
    wasted("ben", 1, 2)

    assert states(3.2) == [("nlp", "firing")]
    breach = newest()
    assert (breach.title, breach.path) == ("waste · NLP $20.00/h", "/waste?team=nlp&group_by=user")
    assert Incident.objects.get().team.slug == "nlp"


def test_a_back_test_that_opens_nothing_says_what_lasted_that_long_at_most_and_of_whom():
    """Ana wasted $10, $10 and $6 in three hours on end, Ben $10 in two that are apart."""
    rule = a_money_rule("waste_of_person", 15, minutes=120)
    wasted("ana", 2, 3)
    wasted("ana", 4, ms=HOUR_MS * 6 // 10)
    wasted("ben", 1, 4)

    peak = back_tested(rule, 0, 6).peak

    assert (peak.value, peak.name, peak.since_ms) == (10.0, "ana", to_ms(hour(2)))
    Rule.objects.filter(pk=rule.pk).update(minutes=180)
    rule.refresh_from_db()
    assert back_tested(rule, 0, 6).peak.value == 6.0


def test_what_a_team_wasted_at_most_is_said_within_the_scope_alone():
    rule = a_money_rule("waste_of_team", 50, minutes=60)
    wasted("ana", 1, 2)
    others = (Matcher("team", ("vision",)),)

    assert back_tested(rule, 0, 6).peak.name == "NLP"
    assert back_tested(rule, 0, 6, scope=others).peak is None


def test_a_back_test_that_opens_something_has_no_need_of_what_came_next_to_it():
    rule = a_money_rule("waste_of_team", 10, minutes=60)
    wasted("ana", 1, 2)

    done = back_tested(rule, 0, 6)

    assert (len(done.trials), done.peak) == (1, None)
    assert (done.by_name, done.things_in_words, done.owners) == ({"NLP": 1}, "1 team", 0)


def test_what_was_evaluated_each_half_hour_is_what_the_back_test_says_of_waste():
    rule = a_money_rule("waste_of_person", 10, minutes=120)
    wasted("ana", 1, 2, 3, 6, 7, 8, 9)
    wasted("ben", 2, 4, 6)
    wasted("eve", *range(12), state="useful")
    for half in range(24):
        evaluate(hour(half / 2))

    live = Incident.objects.order_by("-since_ms")
    assert [(each.subject, each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.subject, trial.episode.since_ms, trial.episode.fired_ms)
        for trial in tried(rule, 0, 11.2)
    ]
    assert live.count() == 2


def test_what_many_wasted_is_told_by_one_look_as_it_is_by_a_look_at_each():
    wasted("ana", *range(12), usd="4")
    wasted("ana", 5, state="useful")
    wasted("ben", 3, 7, state="unobserved")
    watch = Watch(
        settings=condition("waste_of_person").usual, start_ms=to_ms(hour(2)), end_ms=to_ms(hour(13))
    )
    several = [
        Episode(user, to_ms(hour(start)), to_ms(hour(end)), None)
        for user in ("ana", "ben", "eve")
        for start, end in (
            (0, 1),
            (0, 12),
            (3, 4),
            (3.5, 7.1),
            (5, 6),
            (6, 8),
            (7, 8),
            (8, 11),
            (9, 12),
        )
    ]

    together = wasted_in(several, "user", watch)

    assert together == [wasted_in([each], "user", watch)[0] for each in several]
    of_ana = [each and each.wasted_usd for each in together[:4]]
    assert of_ana == [Decimal(4), Decimal(48), Decimal(4), Decimal(20)]
    assert together[-1] is None


def test_a_forecast_whose_range_reads_as_one_sum_says_how_far_it_may_be_from_that():
    """$1,632 are expected, 14 cents more or less."""
    a_money_rule("budget_spent", 10)
    a_budget("2000")
    spent(10, 0)
    an_outlook(2, made=24.1)
    Outlook.objects.update(low=[-0.0001] * 31, high=[0.0001] * 31)

    announcing.run(hour(26))

    forecast = dict(stored_breach(Incident.objects.get().facts).lines)["Forecast"]
    assert "≈ $1,630 by the month's end (±$5 at most)" in forecast
