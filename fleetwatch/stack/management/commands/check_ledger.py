"""`manage.py check_ledger`: what does not balance in the stored ledger; exit 1 if anything, 2 for
bad arguments.
"""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.costs import day_sums
from fleetwatch.diagnosis import cause_checks as diagnosis
from fleetwatch.figures.pricing import MICRO_USD
from fleetwatch.figures.selectors import GROUPS, totals, totals_by
from fleetwatch.figures.totals import ZERO
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
        interval = self._interval(start, end)
        if interval is None:
            return
        self._say_what_is_left_out(interval, afresh_at)
        times = f"{interval.start:%Y-%m-%d %H:%M} {{}} {interval.end:%Y-%m-%d %H:%M} UTC"
        count = 0
        for count, fault in enumerate(self._faults(interval, afresh_at), 1):
            if count <= MAX_SHOWN:
                self.stdout.write(fault)
        if count:
            self.stdout.write(f"{count} things do not balance between {times.format('and')}")
            sys.exit(1)
        self.stdout.write(f"the ledger balances from {times.format('to')}")

    def _interval(self, start: str | None, end: str | None) -> Interval | None:
        """What of the ledger is asked for; None where there is nothing, which is said."""
        bounds = check.whole_ledger(timezone.now())
        low = None if start is None else self.moment("--from", start)
        high = None if end is None else self.moment("--to", end)
        if low is not None and high is not None and low >= high:
            self.refuse_argument(f"--from {start} is not before --to {end}")
        if bounds is None:
            self.stdout.write("the ledger is empty")
            return None
        start_at, end_at = bounds
        low = max(low or start_at, start_at)
        high = min(high or end_at, end_at)
        if low < high:
            return Interval(low, high)
        self.stdout.write("no hours in that period")
        return None

    def _say_what_is_left_out(self, interval: Interval, afresh_at: datetime | None) -> None:
        if afresh_at is None:
            self.stdout.write("not compared with telemetry: --stored")
        elif waiting := check.waiting_hours(interval.start, interval.end):
            self.stdout.write(
                f"not compared with telemetry: hours of nodes that wait to be posted ({waiting})"
            )

    def _faults(self, interval: Interval, afresh_at: datetime | None) -> Iterator[str]:
        """A line for each thing that does not balance, as it is found; progress goes to stderr."""
        low = interval.start
        high = interval.end
        nodes = check.nodes()
        for done, node in enumerate(nodes, 1):
            yield from map(str, check.unbalanced_of(node, low, high, now=afresh_at))
            if done % NODES_PER_LINE == 0:
                self.stderr.write(f"checked nodes={done}/{len(nodes)}")
        yield from map(str, check.spent_twice(low, high))
        yield from map(str, check.of_another_team(low))
        yield from _wrong_sums(interval)
        yield from diagnosis.faults(interval)
        yield from uneven_lines(interval)
        yield from balance.faults(interval)


def _wrong_sums(interval: Interval) -> Iterator[str]:
    rule = "sums of days are those of entries"
    for name, day, off_ms in day_sums.wrong_sums(interval):
        yield str(check.Imbalance(rule, name, day, f"{off_ms} ms in other states or jobs"))


def uneven_lines(interval: Interval) -> Iterator[str]:
    """The breakdowns whose lines, those of nobody included, are not the fleet's: milliseconds
    exactly, dollars to the micro-dollar.
    """
    fleet = totals(interval)
    for group_by in GROUPS:
        lines = [group.totals for group in totals_by(interval, group_by)]
        gpu_ms = sum(line.capacity_ms for line in lines) - fleet.capacity_ms
        usd = sum((line.cost_usd for line in lines), ZERO) - fleet.cost_usd
        if gpu_ms or abs(usd) >= MICRO_USD:
            yield (
                f"lines sum to the fleet: by {group_by} they have {gpu_ms} ms and {usd:f} dollars"
                " more"
            )
