"""`manage.py check_heartbeat NAME`: exit status 0 when that process said within a minute that it
lives.
"""

import argparse
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from fleetwatch.lib.commands import HubCommand
from fleetwatch.operations.selectors import heartbeat_age_s

OLDEST_S = 90


class Command(HubCommand):
    help = "Exit status 1 when the heartbeat NAME is older than 90 s; for container health checks."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        age = heartbeat_age_s(options["name"], timezone.now())
        if age is None or age > OLDEST_S:
            raise CommandError(f"no heartbeat {options['name']!r} within {OLDEST_S} s")
