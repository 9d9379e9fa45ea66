"""`manage.py demo_truth`: what was really wrong on the simulated fleet, as CSV, for judging a
diagnosis.
"""

import csv
from dataclasses import astuple, fields
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from fleetwatch.demo.fleet import GPUS, nodes
from fleetwatch.demo.truth import Truth, truth_between
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import to_ms

MAX_DAYS = 90


class Command(HubCommand):
    """Prints a row per GPU, job and cause of the given time."""

    help = (
        "What was really wrong on the simulated fleet, as CSV: node, gpu, job_key, start_ms,"
        " end_ms, cause"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """--from and --to are needed."""
        parser.add_argument(
            "--from",
            dest="start",
            required=True,
            help="ISO 8601 with an offset, such as 2026-11-20T00:00Z",
        )
        parser.add_argument("--to", dest="end", required=True, help="as --from; not included")
        parser.add_argument(
            "--gpus",
            type=int,
            default=GPUS,
            help="simulated GPUs, eight to a node (default %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError for what is no time, and for more than can be looked at."""
        start_ms = _time(options["start"])
        end_ms = _time(options["end"])
        if start_ms >= end_ms:
            raise CommandError("--from must be before --to")
        if end_ms - start_ms > MAX_DAYS * 86_400_000 or not 1 <= options["gpus"] <= 1024:
            raise CommandError(f"--from to --to is {MAX_DAYS} days at most, --gpus is 1 to 1024")
        writer = csv.writer(self.stdout, lineterminator="\n")
        writer.writerow([field.name for field in fields(Truth)])
        for member in nodes(options["gpus"]):
            writer.writerows(astuple(span) for span in truth_between(member, start_ms, end_ms))


def _time(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{text}: expected ISO 8601, such as 2026-11-20T00:00Z") from error
    if at.tzinfo is None:
        raise CommandError(f"{text}: say the offset, such as {text}Z")
    return to_ms(at)
