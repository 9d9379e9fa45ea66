"""Each condition has one rule that is shipped with it, from the moment there is a table for it."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models.signals import post_migrate
from django.dispatch import receiver
from django.utils import timezone

from fleetwatch.alerts.conditions import CONDITIONS
from fleetwatch.alerts.models import Rule


@receiver(post_migrate)
def ship(sender: Any, plan: Any = None, **_: Any) -> None:
    """After a migration of alerts; nothing where the tables stand at an older one, or are only
    emptied, which has no plan.
    """
    is_ours = plan is not None and sender.name == "fleetwatch.alerts"
    if is_ours and _has_column(Rule._meta.db_table, "is_shipped"):
        add_missing(timezone.now())


def add_missing(now: datetime) -> int:
    """How many rules were added."""
    there = set(Rule.objects.filter(is_shipped=True).values_list("condition", flat=True))
    names = set(Rule.objects.values_list("name", flat=True))
    missing = [each for each in CONDITIONS if each.name not in there]
    for each in missing:
        Rule.objects.create(
            name=f"{each.label} (shipped)" if each.label in names else each.label,
            condition=each.name,
            is_shipped=True,
            is_enabled=each.is_on,
            severity=each.severity,
            created_at=now,
            **asdict(each.usual),
        )
    return len(missing)


def _has_column(table: str, column: str) -> bool:
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, table)
    return column in {each.name for each in columns}
