"""What all of our management commands are."""

import sys
from datetime import UTC, datetime
from typing import NoReturn

from django.core.management.base import BaseCommand


class HubCommand(BaseCommand):
    """Starts at once: pages and models are checked by `make lint`, not before each command."""

    requires_system_checks: list[str] = []

    def refuse(self, sentence: str) -> NoReturn:
        """Ends the command, whose arguments are wrong."""
        self.stderr.write(sentence)
        sys.exit(2)

    def moment(self, name: str, text: str) -> datetime:
        """What the argument of that name says, in UTC where it says no offset; else refuses."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.refuse(
                f"{name}: expected a time like 2026-11-20 or 2026-11-20T15:00+00:00, not {text!r}"
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
