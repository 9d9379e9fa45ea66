"""`manage.py remove_node NODE --reason ...`: an admin says that a silent node is gone."""

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.ingest.services import RemovalError, remove_node
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    refusals = (RemovalError,)
    help = (
        "Takes a silent node off the bill as of its last window; it comes back by reporting again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("node", help="its name")
        parser.add_argument("--reason", required=True, help="why, for who asks later")

    def handle(self, *args: Any, node: str, reason: str, **options: Any) -> None:
        remove_node(node, reason=reason, by=self.by, now=timezone.now())
        self.stdout.write(
            f"{node} is off the bill as of its last window, and comes back by reporting again"
        )
