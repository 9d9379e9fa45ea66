"""manage.py rotate_secrets: after SECRET_KEY changed, re-encrypts what is stored with the
new one.
"""

from typing import Any

from django.core.management.base import CommandError

from fleetwatch.lib.commands import HubCommand
from fleetwatch.notify import services


class Command(HubCommand):
    """Exit 1 when some settings open with no key: those channels need their settings again."""

    help = (
        "Re-encrypts channel settings with SECRET_KEY; the old key must be in"
        " FLEETWATCH_SECRET_KEYS."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        did = services.rotate_secrets()
        if did["unreadable"]:
            raise CommandError(
                f"{did['rotated']} channels re-encrypted, {did['unreadable']} open with no key:"
                " enter their settings again"
            )
        self.stdout.write(
            f"{did['rotated']} channels re-encrypted; FLEETWATCH_SECRET_KEYS can be emptied"
        )
