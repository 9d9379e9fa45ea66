"""manage.py create_agent_token NODE [--import] [--speaks-for CLUSTER]: prints a new agent token,
alone, on standard output.
"""

import argparse
from typing import Any

from django.utils import timezone

from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.refusal import RefusedFieldError


class Command(HubCommand):
    refusals = (RefusedFieldError,)
    help = (
        "Makes a token that speaks for one node, and prints it once. The node is made when it is"
        " new."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("node", metavar="NODE")
        parser.add_argument(
            "--import",
            dest="may_import",
            action="store_true",
            help="it may send accounting too: fleetwatch-agent history",
        )
        parser.add_argument(
            "--speaks-for",
            default="",
            metavar="CLUSTER",
            help=(
                "what it says of this cluster's jobs wins over what nodes say: for an agent with"
                " the scheduler's own books"
            ),
        )

    def handle(self, *args: object, **options: Any) -> None:
        rights = Rights(options["may_import"], options["speaks_for"])
        self.stdout.write(create_agent_token(options["node"], timezone.now(), rights))
