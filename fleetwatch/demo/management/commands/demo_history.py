"""`manage.py demo_history`: tells what the simulated fleet did before now; safe to run again."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from fleetwatch.demo import fleet
from fleetwatch.demo.services import tell, untold
from fleetwatch.operations.services import record_run


class Command(BaseCommand):
    """Stores the days that are missing, newest first, and says so day by day."""

    help = "Fills the demo fleet's past, newest day first. Run again, it stores only what is missing since."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, default=fleet.DAYS, help="how far back (default %(default)s)")
        parser.add_argument("--gpus", type=int, default=fleet.GPUS, help="simulated GPUs, eight to a node (default %(default)s)")
        parser.add_argument("--until", help="where live agents take over, ISO 8601 (default now)")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["days"] <= 90 or not 1 <= options["gpus"] <= 1024:
            raise CommandError("--days is 1 to 90, --gpus is 1 to 1024")
        until = _moment(options["until"]) if options["until"] else timezone.now()
        chapters = untold(gpus=options["gpus"], days=options["days"], until=until)
        if not chapters:
            self.stdout.write("history is complete")
            return
        with record_run("demo.history") as did:
            did.update(windows=0, batches=len(chapters))
            for told in tell(chapters, clock=timezone.now):
                did["windows"] += told.windows
                self.stdout.write(f"history day={told.day} windows={told.windows}")
                self.stdout.flush()
        self.stdout.write("history is complete")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"--until {text}: expected ISO 8601, such as 2026-11-20T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
