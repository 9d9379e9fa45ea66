"""`manage.py settle`: does now, in this process, all work on what was committed before it began."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from fleetwatch.alerts import services as alerts
from fleetwatch.costs import services as costs
from fleetwatch.inventory import services as inventory
from fleetwatch.ledger import services as ledger
from fleetwatch.notify import services as notify
from fleetwatch.operations.services import record_run
from fleetwatch.telemetry import seal

LIMIT = 500
Step = Callable[[datetime], dict[str, Any]]

STEPS: tuple[tuple[str, Step], ...] = (
    ("rates", lambda now: costs.ensure_example_rates(now) or {}),
    ("seal", lambda now: seal.seal_closed_hours(now, LIMIT)),
    ("retire", lambda now: inventory.retire_silent(now) or {}),
    ("post", lambda now: ledger.post(now, LIMIT)),
    ("evaluate", alerts.evaluate),
    ("deliver", lambda now: notify.deliver_due(now, LIMIT)),
)


class Command(BaseCommand):
    help = "Seal, post, evaluate and deliver everything that is due, open hours included; for operators after an import."

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        with record_run("settle") as did:
            for name, step in STEPS:
                did[name] = step(now)
                self.stdout.write(f"{name}: " + (", ".join(f"{count} {what}" for what, count in did[name].items()) or "done"))
