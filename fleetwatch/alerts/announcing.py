"""Whom incidents are told: groups of them, and what is sent of each when."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.db import transaction

from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.grouping import group_key
from fleetwatch.alerts.messages import Case, Setting, of_group
from fleetwatch.alerts.models import Incident, IncidentGroup, Rule
from fleetwatch.alerts.services import evaluate
from fleetwatch.lib.sql import wait_for_lock
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import Recipient, enqueue

State = Incident.State


def run(now: datetime) -> dict[str, int]:
    """Evaluates every rule, then tells of what that changed; what both did."""
    return evaluate(now) | announce(now)


def announce(now: datetime) -> dict[str, int]:
    """How many groups were opened and closed; each is told of both."""
    with transaction.atomic():
        wait_for_lock("alerts.announce")  # who evaluated last tells what all did
        opened = _open_groups(now)
        closed = _close_groups(now)
    return {"groups_opened": opened, "groups_closed": closed}


def _open_groups(now: datetime) -> int:
    fresh = Incident.objects.filter(state=State.FIRING, group=None, is_late=False)
    by_key: dict[tuple[Rule, str], list[Incident]] = defaultdict(list)
    for incident in fresh.select_related("rule").order_by("pk"):
        by_key[incident.rule, group_key(stored_breach(incident.facts))].append(incident)
    return sum(_join(rule, key, incidents, now) for (rule, key), incidents in by_key.items())


def _join(rule: Rule, key: str, incidents: Sequence[Incident], now: datetime) -> bool:
    group, is_new = IncidentGroup.objects.get_or_create(
        rule=rule, key=key, closed_at=None, defaults={"opened_at": now}
    )
    joined = [incident.pk for incident in incidents]
    Incident.objects.filter(pk__in=joined).update(group=group)
    _send(group, "opened" if is_new else f"joined/{joined[-1]}", now)
    return is_new


def _close_groups(now: datetime) -> int:
    open_groups = IncidentGroup.objects.filter(closed_at=None).select_related("rule")
    over = list(open_groups.exclude(incidents__resolved_at=None))
    for group in over:
        group.closed_at = now
        group.save(update_fields=["closed_at"])
        _send(group, "resolved", now)
    return len(over)


def _send(group: IncidentGroup, what: str, now: datetime) -> None:
    setting = Setting(
        rule_name=group.rule.name,
        severity=group.rule.severity,
        zone=organisation_zone(),
        now=now,
        base=settings.PUBLIC_URL,
    )
    cases = [
        Case(each.pk, stored_breach(each.facts), each.note, each.resolution)
        for each in group.incidents.order_by("pk")
    ]
    recipients = map(Recipient, group.rule.channels.all() or Channel.objects.all())
    thread = f"group/{group.pk}"
    message = of_group(cases, setting)
    enqueue(recipients, message, key=f"{thread}/{what}", now=now, thread=thread)
