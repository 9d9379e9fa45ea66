"""`manage.py import_rates FILE [--dry-run]`: sets the rates of a CSV file; exit 1 when it was refused, 2 when it can't be read."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from fleetwatch.costs import imports
from fleetwatch.costs.pricing import CENT, usd
from fleetwatch.costs.rate_csv import COLUMNS, MAX_BYTES
from fleetwatch.lib.csv_rows import RefusedError


class Command(BaseCommand):
    help = f"Sets the rates of a CSV file, all or none of them. Columns: {', '.join(COLUMNS)} (docs/money.md)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="- reads standard input")
        parser.add_argument("--dry-run", action="store_true", help="only say what it would change in the last closed 30 days")

    def handle(self, *args: Any, file: str, dry_run: bool, **options: Any) -> None:
        content = self._content(file)
        now = timezone.now()
        try:
            if dry_run:
                self._show(imports.dry_run(content, now=now))
                return
            done = imports.import_rates(content, now=now)
        except RefusedError as error:
            for fault in error.faults:
                self.stderr.write(f"{file}: {fault}")
            self.stderr.write("nothing was set")
            sys.exit(1)
        self.stdout.write(f"{done.set} rates set, {done.stood} stood already")

    def _content(self, file: str) -> bytes:
        try:
            with sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
                return source.read(MAX_BYTES + 1)
        except OSError as error:
            self.stderr.write(f"{file}: {error.strerror}")
            sys.exit(2)

    def _show(self, found: imports.DryRun) -> None:
        start, end = found.interval.start, found.interval.end
        self.stdout.write(f"would set {found.would.set} rates, {found.would.stood} stand already; nothing was set")
        self.stdout.write(f"dollars from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, before, after and the difference:")
        for change in [*found.changes, found.total]:
            amounts = [usd(amount, CENT) for amount in (change.before_usd, change.after_usd, change.difference_usd)]
            self.stdout.write(f"{change.label or 'total':<30} {amounts[0]:>14} {amounts[1]:>14} {amounts[2]:>+14}")
