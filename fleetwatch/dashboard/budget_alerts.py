"""Which rules watch a budget, at what share of it, which channels they tell first, and which of
them it has set off.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.conditions import budget_forecast, budget_spent
from fleetwatch.alerts.matchers import Labels, matched, stored
from fleetwatch.alerts.measuring.budget_months import subject_of
from fleetwatch.alerts.messaging.address_book import AddressBook, read_address_book
from fleetwatch.alerts.messaging.routing import Matter, rungs
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.budgets.budgets import WHOLE_FLEET
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG

# what reaches the rule's share of the budget, by the rule's condition
REACHED: Mapping[str, str] = {
    budget_spent.CONDITION.name: "spent",
    budget_forecast.CONDITION.name: "expected by the forecast",
}


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A rule that watches the budget; no `channels`: nobody is told, as by those that are only
    `kept`: what they take is kept here and sent nowhere. `incident`: the one that goes on, as far
    as the reader sees it; `pending`: one that opens once it has lasted as long as the rule asks.
    """

    rule: Rule
    channels: list[str]
    kept: list[str]
    incident: Incident | None
    pending: Incident | None

    @property
    def reached(self) -> str:
        return REACHED[self.rule.condition]

    @property
    def since(self) -> datetime | None:
        """From when on the share was reached; None = it is not, or the reader sees no incident."""
        return None if self.incident is None else from_ms(self.incident.since_ms)

    @property
    def needs_forecast(self) -> bool:
        return self.rule.condition == budget_forecast.CONDITION.name


def budget_alerts(team: Team | None) -> list[BudgetAlert]:
    """The rules that are on and watch the team's budget, or the fleet's: the lowest share first."""
    rules = Rule.objects.filter(condition__in=REACHED, is_enabled=True)
    labels = _labels(team.slug if team else WHOLE_FLEET)
    watching = [
        rule
        for rule in rules.prefetch_related("channels").order_by("threshold", "name")
        if matched(stored(rule.matchers), labels)
    ]
    if not watching:
        return []
    book = read_address_book([])
    going_on = _going_on(watching, team)
    return [_alert(rule, team, book, going_on.get(rule.pk)) for rule in watching]


def unheard(keys: Collection[str]) -> dict[str, Rule]:
    """By its key each of these budgets that nobody hears of once it is spent, with the rule to set
    for that: none that is on watches it.
    """
    if not keys:
        return {}
    named = Rule.objects.filter(condition=budget_spent.CONDITION.name)
    rules = list(named.order_by("-is_shipped", "pk"))
    scopes = [stored(rule.matchers) for rule in rules if rule.is_enabled]
    return {
        key: rules[0]
        for key in keys
        if rules and not any(matched(scope, _labels(key)) for scope in scopes)
    }


def _labels(key: str) -> Labels:
    return {} if key == WHOLE_FLEET else {"team": (key,)}


def _alert(
    rule: Rule, team: Team | None, book: AddressBook, incident: Incident | None
) -> BudgetAlert:
    is_pending = incident is not None and incident.fired_ms is None
    states = (None, incident) if is_pending else (incident, None)
    return BudgetAlert(rule, *_first(rule, team, book), *states)


def _going_on(rules: Collection[Rule], team: Team | None) -> dict[int, Incident]:
    """By rule the budget's incident that goes on, or is pending."""
    subject = subject_of(team.slug if team else WHOLE_FLEET)
    going_on = visible_incidents().filter(rule__in=rules, subject=subject, ended_ms=None)
    return {each.rule_id: each for each in going_on}


def _first(rule: Rule, team: Team | None, book: AddressBook) -> tuple[list[str], list[str]]:
    """The names of the channels that are told first, and of those that only keep it."""
    matter = Matter(
        rule.name,
        tuple(channel.pk for channel in rule.channels.all()),
        team_id=team.pk if team else None,
        team_name=team.label if team else "",
    )
    ladder = rungs(matter, book.routes)
    first = ladder[0].destinations if ladder else ()
    channels = [book.channels[each.channel_id] for each in first]
    return (
        [channel.name for channel in channels if channel.kind != DELIVERY_LOG.kind],
        [channel.name for channel in channels if channel.kind == DELIVERY_LOG.kind],
    )
