"""manage.py create_user NAME [--role ROLE] [--team SLUG] [--email ADDRESS]: makes an account and
prints its password, alone, on standard output.
"""

import argparse
import secrets

from django.core.management.base import CommandError
from django.utils import timezone

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import NewPerson, create_person
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.refusal import RefusedFieldError


class Command(HubCommand):
    help = "Makes an account with a random password, which is printed once."
    refusals = (RefusedFieldError,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--role", choices=User.Role.values, default=User.Role.ENGINEER)
        parser.add_argument("--team", metavar="SLUG", default="", help="the team that NAME is in")
        parser.add_argument("--email", metavar="ADDRESS", default="")

    def handle(self, *args: object, **options: str) -> None:
        team = Team.objects.filter(slug=options["team"]).first()
        if options["team"] and team is None:
            raise CommandError(f"there is no team {options['team']!r}")
        password = secrets.token_urlsafe(16)
        new = NewPerson(options["name"], options["email"], options["role"], team, password)
        create_person(new, now=timezone.now())
        self.stdout.write(password)
