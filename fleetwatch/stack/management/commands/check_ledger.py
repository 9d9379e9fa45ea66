"""`manage.py check_ledger`: what does not balance in the stored ledger; exit 1 if anything, 2 for
bad arguments.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.costs import day_sums
from fleetwatch.costs.drift import drifts
from fleetwatch.diagnosis import cause_checks as diagnosis
from fleetwatch.ledger import check
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import one_view
from fleetwatch.reports import balance

MAX_SHOWN = 1000  # the rest is counted
NODES_PER_LINE = 10  # of progress


class Command(HubCommand):
    help = (
        "Recomputes every conservation rule over the stored ledger and prints what does not"
        " balance."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--from",
            dest="start",
            metavar="TIME",
            help="ISO 8601, UTC unless it says otherwise; default: the beginning",
        )
        parser.add_argument("--to", dest="end", metavar="TIME", help="ISO 8601; default: the end")
        parser.add_argument(
            "--stored",
            action="store_true",
            help="compare what is stored alone: no telemetry is judged afresh",
        )

    def handle(
        self, *args: Any, start: str | None, end: str | None, stored: bool, **options: Any
    ) -> None:
        # posting goes on: what is compared has to be of one moment
        with one_view():
            self._check(start, end, afresh_at=None if stored else timezone.now())

    def _check(self, start: str | None, end: str | None, *, afresh_at: datetime | None) -> None:
        bounds = check.whole_ledger(timezone.now())
        low = self._moment("--from", start)
        high = self._moment("--to", end)
        if low is not None and high is not None and low >= high:
            self._refuse(f"--from {start} is not before --to {end}")
        if bounds is None:
            self.stdout.write("the ledger is empty")
            return
        low = max(low or bounds[0], bounds[0])
        high = min(high or bounds[1], bounds[1])
        if low >= high:
            self.stdout.write("no hours in that period")
            return
        if afresh_at is None:
            self.stdout.write("not compared with telemetry: --stored")
        elif waiting := check.waiting_hours(low, high):
            self.stdout.write(
                f"not compared with telemetry: hours of nodes that wait to be posted ({waiting})"
            )
        count = 0
        for count, fault in enumerate(self._faults(low, high, afresh_at), 1):
            if count <= MAX_SHOWN:
                self.stdout.write(fault)
        if count:
            self.stdout.write(
                f"{count} things do not balance between {low:%Y-%m-%d %H:%M} and"
                f" {high:%Y-%m-%d %H:%M} UTC"
            )
            sys.exit(1)
        self.stdout.write(
            f"the ledger balances from {low:%Y-%m-%d %H:%M} to {high:%Y-%m-%d %H:%M} UTC"
        )

    def _faults(self, low: datetime, high: datetime, afresh_at: datetime | None) -> Iterator[str]:
        """A line for each thing that does not balance, as it is found; progress goes to stderr."""
        nodes = check.nodes()
        for done, node in enumerate(nodes, 1):
            yield from map(str, check.unbalanced_of(node, low, high, now=afresh_at))
            if done % NODES_PER_LINE == 0:
                self.stderr.write(f"checked nodes={done}/{len(nodes)}")
        yield from map(str, check.spent_twice(low, high))
        yield from map(str, check.of_another_team(low))
        for name, day, off_ms in day_sums.wrong_sums(Interval(low, high)):
            yield str(
                check.Imbalance(
                    "sums of days are those of entries",
                    name,
                    day,
                    f"{off_ms} ms in other states or jobs",
                )
            )
        yield from diagnosis.faults(Interval(low, high))
        for drift in drifts(Interval(low, high)):
            yield (
                f"lines sum to the fleet: by {drift.group_by} they have {drift.gpu_ms} ms and"
                f" {drift.usd:f} dollars more"
            )
        yield from balance.faults(Interval(low, high))

    def _moment(self, name: str, text: str | None) -> datetime | None:
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self._refuse(
                f"{name}: expected a time like 2026-11-20 or 2026-11-20T15:00+00:00, not {text!r}"
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def _refuse(self, sentence: str) -> None:
        self.stderr.write(sentence)
        sys.exit(2)
