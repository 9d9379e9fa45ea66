"""`manage.py demo_history`: tells what the simulated fleet did before now; safe to run again."""

import time
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from fleetwatch.demo import demo_decisions, demo_fixes, demo_incidents, demo_reports, fleet
from fleetwatch.demo.services import Chapter, missing_chapters, of_faults, store
from fleetwatch.diagnosis.findings import noted_facts
from fleetwatch.ledger import services as ledger
from fleetwatch.lib.commands import HubCommand
from fleetwatch.operations.services import record_run

# for the worker to diagnose what was told; on a slow machine minutes
LOOKS_EVERY_S = 5.0
LOOKS = 360
MAX_HOURS = 1_000  # of nodes that had faults, posted before what fired is told
MOST_FINDINGS = 2_000  # whose steps are measured at once: the worker takes some a minute


class Command(HubCommand):
    """Stores the days that are missing, newest first, and says so day by day."""

    help = (
        "Fills the demo fleet's past, newest day first. Run again, it stores only what is missing"
        " since."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--days", type=int, default=fleet.DAYS, help="how far back (default %(default)s)"
        )
        parser.add_argument(
            "--gpus",
            type=int,
            default=fleet.GPUS,
            help="simulated GPUs, eight to a node (default %(default)s)",
        )
        parser.add_argument("--until", help="where live agents take over, ISO 8601 (default now)")
        parser.add_argument(
            "--fixes",
            action="store_true",
            help="tell what fired lately; wait until it is diagnosed, then tell and measure what"
            " owners mended, and ask for its months' reports",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["days"] <= 90 or not 1 <= options["gpus"] <= 1024:
            raise CommandError("--days is 1 to 90, --gpus is 1 to 1024")
        until = _moment(options["until"]) if options["until"] else timezone.now()
        asked = {"gpus": options["gpus"], "days": options["days"], "until": until}
        if options["fixes"]:
            self._store(of_faults(missing_chapters(**asked)))
            # rules on faults judge by what the ledger has of them
            ledger.post(timezone.now(), MAX_HOURS)
            self._tell_incidents()
        self._store(missing_chapters(**asked))
        self._say("history is complete")
        if options["fixes"]:
            self._decide_fixes(options["days"])

    def _tell_incidents(self) -> None:
        """Before the worker evaluates rules: what fired in the hours that are posted already."""
        self._say(f"past incidents={demo_incidents.evaluate_past(timezone.now())}")
        self._say(f"incidents acted on={demo_incidents.act_on_some(timezone.now())}")

    def _store(self, chapters: Sequence[Chapter]) -> None:
        if not chapters:
            return
        with record_run("demo.history") as did:
            did.update(windows=0, batches=len(chapters))
            for day, windows in store(chapters, clock=timezone.now):
                did["windows"] += windows
                self._say(f"history day={day} windows={windows}")

    def _decide_fixes(self, days: int) -> None:
        for _ in range(LOOKS):
            if demo_fixes.is_diagnosed(timezone.now(), days=days):
                self._say(f"findings noted={noted_facts.note(MOST_FINDINGS)}")
                self._say(f"fixes told={demo_fixes.decide_fixes(timezone.now(), days=days)}")
                self._say(f"decisions told={demo_decisions.decide_some(timezone.now())}")
                self._say(f"incidents acted on={demo_incidents.act_on_some(timezone.now())}")
                self._say(f"months asked={demo_reports.ask_for_months(timezone.now(), days=days)}")
                self._say(f"digests {demo_reports.write_digests(timezone.now())}")
                return
            time.sleep(LOOKS_EVERY_S)
        self._say("fixes are not told: the history is not diagnosed yet")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(
            f"--until {text}: expected ISO 8601, such as 2026-11-20T12:00:00Z"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
