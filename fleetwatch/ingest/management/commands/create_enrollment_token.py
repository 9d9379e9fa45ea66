"""manage.py create_enrollment_token [--uses N] [--ttl 1h]: prints a new enrolment token, alone, on
standard output.
"""

import argparse
import re
from datetime import timedelta
from typing import Any

from django.utils import timezone

from fleetwatch.ingest.tokens import create_enrollment_token
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.refusal import RefusedFieldError

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """The duration of `90s`, `30m`, `1h` or `7d`. Raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"expected a number and s, m, h or d (as in 1h), not {text!r}"
        )
    return timedelta(**{UNITS[match[2]]: int(match[1])})


class Command(HubCommand):
    refusals = (RefusedFieldError,)
    help = "Makes a token with which new nodes fetch their own, and prints it once."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--uses", type=int, default=1, metavar="N", help="how many nodes may enrol with it (1)"
        )
        parser.add_argument(
            "--ttl",
            type=duration,
            default=timedelta(hours=1),
            metavar="1h",
            help="how long it works: 90s, 30m, 1h, 7d",
        )

    def handle(self, *args: object, **options: Any) -> None:
        self.stdout.write(
            create_enrollment_token(timezone.now(), uses=options["uses"], ttl=options["ttl"])
        )
