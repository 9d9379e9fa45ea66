"""A message of a budget says what to do first, how severe it is, and leads to the pages for that."""

import pytest

from fleetwatch.accounts.models import Organisation, Team, User
from fleetwatch.accounts.selectors import organisation
from fleetwatch.alerts.models import Rule
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.plain_text import plain_text, without_own_links
from fleetwatch.notify.services import create_channel
from fleetwatch.notify.transports.slack_blocks import click_buttons, payload, url_buttons
from tests.alerts import people
from tests.alerts.factories import a_rule
from tests.alerts.test_budget_spent import a_budget, day, spent, states
from tests.alerts.test_money_conditions import an_outlook

pytestmark = pytest.mark.django_db
BASE = "https://fleet.example"


@pytest.fixture(autouse=True)
def _heard(settings):
    settings.PUBLIC_URL = BASE
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=day(0))


def a_budget_rule(condition: str = "budget_spent", **fields) -> Rule:
    usual = {"name": "Budget", "threshold": 80, "minutes": 1, "evaluated_ms": to_ms(day(0))}
    return a_rule(condition=condition, **(usual | fields))


def newest_message() -> Message:
    message = without_own_links(Delivery.objects.latest("pk").message)
    assert message is not None
    return message


def spending(page: str) -> str:
    return f"{BASE}/costs?from={to_ms(day(0))}&to={to_ms(day(1.5))}&{page}"


def test_it_says_what_to_do_first_and_leads_there_in_mail_and_in_slack():
    a_budget_rule()
    a_budget("300")
    spent(10, 0)

    states(1.5)

    message = newest_message()
    first = "Fix: see what spends most; give back GPUs that are held for nothing, or have the"
    assert message.text.startswith(first)
    assert ("Severity", "warning") in message.fields
    most, budget = spending("team=nlp&group_by=user"), f"{BASE}/budgets/teams/nlp"
    mail = plain_text(message, links=message.links)
    assert f"See what spends most: {most}" in mail
    assert f"The budget: {budget}" in mail
    for buttons in (url_buttons(message), click_buttons(message, "7")):
        urls = {each["action_id"]: each["url"] for each in buttons if "url" in each}
        assert (urls["spending"], urls["budget"]) == (most, budget)
        assert payload(message, buttons)["blocks"][-1]["type"] == "actions"


def test_of_the_fleets_budget_it_leads_to_the_teams_that_spend_most():
    a_budget_rule()
    a_budget("300", team="")
    spent(10, 0)

    states(1.5)

    urls = {each.action: each.url for each in newest_message().buttons}
    assert urls["spending"] == spending("group_by=team")
    assert urls["budget"] == f"{BASE}/budgets/fleet"


def test_one_that_is_passed_is_critical():
    a_budget_rule()
    a_budget("200")
    spent(10, 0)

    states(1.5)

    message = newest_message()
    assert message.severity == dict(message.fields)["Severity"] == "critical"
    assert dict(message.labels)["severity"] == "critical"


def test_a_forecast_above_it_says_so_too():
    a_budget_rule("budget_forecast", threshold=100)
    a_budget("900")
    spent(10, 0)
    an_outlook(1, made=24.1)

    states(1.5)

    message = newest_message()
    assert message.text.startswith("Fix: see what spends most; ")
    assert [each.action for each in message.buttons][-3:] == ["spending", "budget", "open"]


def test_that_it_is_over_leads_to_the_budget_too():
    a_budget_rule()
    a_budget("300")
    spent(10, 0)
    states(1.5)
    a_budget("500", created_at=day(1.6))

    states(1.7)

    message = newest_message()
    assert message.severity == "resolved"
    assert [each.action for each in message.buttons] == ["spending", "budget"]


def pages(message: Message) -> list[str]:
    return [each.action for each in message.buttons if each.action in ("spending", "budget")]


def limited() -> None:
    organisation()
    Organisation.objects.update(others_shown="teams")


def a_message(*, team: str = "nlp") -> Message:
    a_budget_rule()
    a_budget("300", team=team)
    spent(10, 0)
    states(1.5)
    return newest_message()


def test_strangers_are_led_to_no_page_that_is_closed_to_some_of_them():
    limited()

    message = a_message()

    assert pages(message) == []
    assert message.buttons[-1].action == "open"


def test_the_operators_are_led_to_the_budgets_pages():
    limited()
    people.route("operators", Channel.objects.get())

    assert pages(a_message()) == ["spending", "budget"]


@pytest.mark.parametrize(("team", "leads"), [("nlp", ["spending", "budget"]), ("", [])])
def test_a_teams_channel_is_led_to_the_teams_budget_and_not_to_the_fleets(team, leads):
    limited()
    channel = Channel.objects.get()
    people.route("team", channel, of=people.team("nlp"))
    a_budget_rule().channels.add(channel)
    a_budget("300", team=team)
    spent(10, 0)

    states(1.5)

    assert pages(newest_message()) == leads


def test_a_team_member_may_open_the_pages_that_a_teams_message_leads_to(client, plain_static_files):
    limited()
    client.force_login(User.objects.create(username="vera", role="engineer"))
    people.team("nlp", User.objects.get(username="vera"))
    people.route("team", Channel.objects.get(), of=Team.objects.get(slug="nlp"))

    for each in a_message().buttons:
        if each.action in ("spending", "budget"):
            assert client.get(each.url.removeprefix(BASE)).status_code == 200
