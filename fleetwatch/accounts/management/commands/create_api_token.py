"""manage.py create_api_token USER [--scope read] [--role ROLE] [--days N]: prints a new API token,
alone, on standard output.
"""

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import MAX_DAYS, SCOPES, create_api_token
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.refusal import RefusedFieldError


class Command(HubCommand):
    help = "Makes an API token for a user, and prints it once."
    refusals = (RefusedFieldError,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("--scope", choices=SCOPES, default="read")
        parser.add_argument(
            "--role", default="", help="what it may at most: as much as USER, or less"
        )
        parser.add_argument(
            "--days",
            type=int,
            choices=range(1, MAX_DAYS + 1),
            metavar="N",
            help="how long it holds",
        )
        parser.add_argument(
            "--name", default="", help="what the token is for, shown on the settings page"
        )

    def handle(self, *args: object, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"there is no active user {options['user']!r}")
        now = timezone.now()
        token = create_api_token(
            user,
            scope=options["scope"],
            role=options["role"],
            name=options["name"][:100],
            now=now,
            expires_at=now + timedelta(days=options["days"]) if options["days"] else None,
        )
        self.stdout.write(token)
