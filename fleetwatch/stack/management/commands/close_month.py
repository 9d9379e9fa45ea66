"""`manage.py close_month 2026-10`: closes a month of the organisation for good; exit 1 and one
sentence where it can't be.
"""

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.ledger.months import closing
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    refusals = (closing.ClosingError,)
    help = (
        "Closes a month: its entries stay as they are, and what is judged otherwise later is booked"
        " as an adjustment."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("month", help="like 2026-10")
        parser.add_argument("--reason", default="", help="kept with who closed it and when")

    def handle(self, *args: Any, month: str, reason: str, **options: Any) -> None:
        closed = closing.close_month(
            closing.read_month(month),
            by=self.by,
            now=timezone.now(),
            reason=reason,
        )
        self.stdout.write(
            f"{month} is closed: nothing before {closed.end:%Y-%m-%d %H:%M} UTC changes any more"
        )
