"""manage.py rotate_secrets: after SECRET_KEY changed, re-encrypts what is stored with the
new one.
"""

from typing import Any

from django.core.management.base import CommandError

from fleetwatch.accounts.log_in import second_factor
from fleetwatch.lib.commands import HubCommand
from fleetwatch.notify import services


class Command(HubCommand):
    """Exit 1 when something opens with no key: it has to be entered again."""

    help = (
        "Re-encrypts channel settings and second factors with SECRET_KEY; the old key must be in"
        " FLEETWATCH_SECRET_KEYS."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        channels = services.rotate_secrets()
        factors = second_factor.rotate_secrets()
        done = (
            f"{channels['rotated']} channels and {factors['rotated']} second factors re-encrypted"
        )
        if channels["unreadable"] or factors["unreadable"]:
            raise CommandError(
                f"{done}; {channels['unreadable']} channels (enter their settings again) and"
                f" {factors['unreadable']} second factors (take them away under People) open with"
                " no key"
            )
        self.stdout.write(f"{done}; FLEETWATCH_SECRET_KEYS can be emptied")
