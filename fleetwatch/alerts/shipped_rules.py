"""Each condition has one rule that is shipped with it, from the moment there is a table for it."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db.models.signals import post_migrate
from django.dispatch import receiver
from django.utils import timezone

from fleetwatch.alerts.conditions import CONDITIONS
from fleetwatch.alerts.models import Rule


@receiver(post_migrate)
def ship(sender: Any, **_: Any) -> None:
    """After the tables of alerts."""
    if sender.name == "fleetwatch.alerts":
        add_missing(timezone.now())


def add_missing(now: datetime) -> int:
    """How many rules were added."""
    there = set(Rule.objects.filter(is_shipped=True).values_list("condition", flat=True))
    missing = [each for each in CONDITIONS if each.name not in there]
    for each in missing:
        Rule.objects.create(
            name=each.label,
            condition=each.name,
            is_shipped=True,
            is_enabled=each.is_on,
            severity=each.severity,
            created_at=now,
            **asdict(each.usual),
        )
    return len(missing)
