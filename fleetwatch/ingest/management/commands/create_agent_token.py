"""manage.py create_agent_token NODE: prints a new agent token, alone, on standard output."""

import argparse

from django.core.management.base import CommandError
from django.utils import timezone

from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    help = "Makes a token that speaks for one node, and prints it once. The node is made when it is new."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("node", metavar="NODE")

    def handle(self, *args: object, **options: str) -> None:
        try:
            self.stdout.write(create_agent_token(options["node"], timezone.now()))
        except ValueError as error:
            raise CommandError(str(error)) from error
