"""manage.py create_api_token USER [--scope read]: prints a new API token, alone, on standard
output.
"""

import argparse

from django.core.management.base import CommandError
from django.utils import timezone

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import SCOPES, create_api_token
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    help = "Makes an API token for a user, and prints it once."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("--scope", choices=SCOPES, default="read")
        parser.add_argument(
            "--name", default="", help="what the token is for, shown on the settings page"
        )

    def handle(self, *args: object, **options: str) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"there is no active user {options['user']!r}")
        token = create_api_token(
            user, scope=options["scope"], name=options["name"][:100], now=timezone.now()
        )
        self.stdout.write(token)
