"""Which rules watch a budget, at what share of it, and which channels they tell first."""

from collections.abc import Mapping
from dataclasses import dataclass

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.conditions import budget_forecast, budget_spent
from fleetwatch.alerts.matchers import matched, stored
from fleetwatch.alerts.messaging.address_book import AddressBook, read_address_book
from fleetwatch.alerts.messaging.routing import Matter, rungs
from fleetwatch.alerts.models import Rule

# what reaches the rule's share of the budget, by the rule's condition
REACHED: Mapping[str, str] = {
    budget_spent.CONDITION.name: "spent",
    budget_forecast.CONDITION.name: "expected by the forecast",
}


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A rule that watches the budget; no `channels`: nobody is told."""

    rule: Rule
    channels: list[str]

    @property
    def reached(self) -> str:
        return REACHED[self.rule.condition]

    @property
    def needs_forecast(self) -> bool:
        return self.rule.condition == budget_forecast.CONDITION.name


def budget_alerts(team: Team | None) -> list[BudgetAlert]:
    """The rules that are on and watch the team's budget, or the fleet's: the lowest share first."""
    rules = Rule.objects.filter(condition__in=REACHED, is_enabled=True)
    labels = {} if team is None else {"team": (team.slug,)}
    watching = [
        rule
        for rule in rules.prefetch_related("channels").order_by("threshold", "name")
        if matched(stored(rule.matchers), labels)
    ]
    if not watching:
        return []
    book = read_address_book([])
    return [BudgetAlert(rule, _first(rule, team, book)) for rule in watching]


def _first(rule: Rule, team: Team | None, book: AddressBook) -> list[str]:
    """The names of the channels that are told first."""
    matter = Matter(
        rule.name,
        tuple(channel.pk for channel in rule.channels.all()),
        team_id=team.pk if team else None,
        team_name=team.label if team else "",
    )
    ladder = rungs(matter, book.routes)
    first = ladder[0].destinations if ladder else ()
    return [book.channels[each.channel_id].name for each in first]
