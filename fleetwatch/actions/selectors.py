"""Reads of actions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from fleetwatch.accounts.colleagues import show_people
from fleetwatch.accounts.visibility import sight
from fleetwatch.actions.action_policies import is_dry_run
from fleetwatch.actions.cases import read_cases
from fleetwatch.actions.decision import Step
from fleetwatch.actions.kind import Kind
from fleetwatch.actions.kinds import CONDITIONS, kind_of
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.lib.intervals import Interval

PEOPLE = ("person", "kept_by")
NEXT = {
    Step.WARN: "{owner} is warned within a minute",
    Step.WARN_AGAIN: "{owner} is warned again within a minute",
    Step.ACT: "it is acted on within a minute",
}


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A policy as pages show it."""

    policy: Policy
    is_dry_run: bool

    @property
    def action(self) -> Kind:
        """What it does to what, whoever does it."""
        return kind_of(self.policy.rule.condition)

    @property
    def sentence(self) -> str:
        """What it does."""
        policy = self.policy
        words = self.action.words
        minutes = policy.first_wait_minutes
        many = f"{policy.max_per_hour} {words.thing}{'s' * (policy.max_per_hour != 1)}"
        deed = "calls the webhook" if policy.kind == Policy.Kind.WEBHOOK else words.deed
        return (
            f"When {policy.rule.name} fires and nobody answers, warns {words.owner}, waits"
            f" {minutes:g} min, warns again, waits {policy.second_wait_minutes:g} min, and {deed}:"
            f" {many} an hour at most, of ${policy.max_usd_per_hour:,.2f} an"
            " hour together."
        )

    @property
    def whom(self) -> str:
        """Whom it is about."""
        teams = ", ".join(team.label for team in self.policy.teams.all())
        kinds = " and ".join(self.policy.job_kinds)
        return f"{kinds} jobs of {teams}" if teams and kinds else self.action.words.whom


def policies(now: datetime) -> list[PolicyView]:
    """Every policy, those that are on first."""
    rows = Policy.objects.select_related("rule", "channel").prefetch_related("teams")
    return [view_of_policy(row, now) for row in rows.order_by("-is_enabled", "rule__name")]


def view_of_policy(policy: Policy, now: datetime) -> PolicyView:
    """The policy with whether it is a dry run."""
    return PolicyView(policy, is_dry_run(policy, now))


def rules_without() -> QuerySet[Rule]:
    """Rules that a policy can be made of."""
    rules = Rule.objects.filter(condition__in=CONDITIONS, action_policy=None)
    return rules.order_by("name")


def visible_actions() -> QuerySet[Action]:
    """What the reader may see, the newest first: of who does not see everything what was about his
    jobs or his teams', or an incident that was given to him.
    """
    rows = Action.objects.select_related("policy__rule", "team", "node", "incident", *PEOPLE)
    seen = sight()
    if seen is not None:
        own = Q(person=seen.user_id) | Q(incident__assignee=seen.user_id)
        rows = rows.filter(own | Q(team__in=seen.team_ids))
    return rows.order_by("-began_at", "-pk")


def going_on_within(actions: QuerySet[Action], interval: Interval) -> QuerySet[Action]:
    """Those of them that went on at some moment of the interval."""
    is_over = Q(ended_at__lt=interval.start)
    return actions.filter(began_at__lt=interval.end).exclude(is_over)


def with_people_shown(actions: Iterable[Action]) -> list[Action]:
    """The actions with, in memory alone, the people whom the reader may know."""
    rows = list(actions)
    show_people(rows, *PEOPLE)
    return rows


def outlook(incident: Incident, now: datetime) -> str:
    """What its rule's policy is about to do, or why nothing; "" where there is no policy that is
    on, or it is over.
    """
    enabled = Policy.objects.filter(rule=incident.rule_id, is_enabled=True)
    policy = enabled.select_related("rule", "channel").first()
    if policy is None or incident.resolved_at is not None or incident.fired_ms is None:
        return ""
    [case] = read_cases(policy, [incident], now)
    step = NEXT.get(case.decision.step, "")
    coming = step.format(owner=case.kind.words.owner) or case.decision.why
    return f"{'Dry run: ' if case.is_dry_run else ''}{coming}"
