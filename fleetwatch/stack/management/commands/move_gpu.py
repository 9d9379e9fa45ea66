"""`manage.py move_gpu UUID NODE`: an admin says that a GPU is with this node now, though another
one reports it too.
"""

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.ingest.services import MoveError, move_gpu
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    refusals = (MoveError,)
    help = (
        "Believes that a GPU moved to the node: the windows that it sent of it, and that waited,"
        " count from now on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("uuid", help="like GPU-1a2b..., as /status names it")
        parser.add_argument("node", help="the name of the node that it is with now")

    def handle(self, *args: Any, uuid: str, node: str, **options: Any) -> None:
        move_gpu(uuid, node, now=timezone.now())
        self.stdout.write(f"{uuid} is with {node}: what it sent counts")
