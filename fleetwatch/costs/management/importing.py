"""What the commands that import a file of rates or rules have in common: what they ask for, and
what they say.
"""

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.costs.difference import Change, DryRun, Imported
from fleetwatch.costs.mapping.rule_terms import GIVES
from fleetwatch.figures.pricing import CENT, usd
from fleetwatch.lib.commands import FileCommand
from fleetwatch.lib.csv_files.csv_rows import Form, RefusedError


class ImportCommand(FileCommand):
    """Sets what a file has, or says what it would change; exit 1 where it is refused, 2 where it
    can't be read.
    """

    form: Form
    act: Callable[..., Imported]
    look: Callable[..., DryRun]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="only say what it would change in the last closed 30 days",
        )

    def handle(self, *args: Any, file: str, dry_run: bool, **options: Any) -> None:
        content = self.content(file, max_bytes=self.form.max_bytes)
        now = timezone.now()
        try:
            if dry_run:
                self._show(file, self.look(content, now=now))
            else:
                done = self.act(content, now=now)
                self._warn(file, done)
                self.stdout.write(f"{done.set} {self.form.what}s set, {done.stood} stood already")
        except RefusedError as error:
            self.refuse([*(f"{file}: {fault}" for fault in error.faults), "nothing was set"])

    def _warn(self, file: str, done: Imported) -> None:
        for doubt in done.doubts:
            self.stderr.write(f"{file}: {doubt}")

    def _show(self, file: str, trial: DryRun) -> None:
        self._warn(file, trial.would)
        start = trial.interval.start
        end = trial.interval.end
        self.stdout.write(
            f"would set {trial.would.set} {self.form.what}s, {trial.would.stood} stand already;"
            " nothing was set"
        )
        self.stdout.write(
            f"dollars from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, before, after and"
            " the difference:"
        )
        for change in [*trial.changes, trial.total]:
            self.stdout.write(_line(change))


def _line(change: Change) -> str:
    name = f"{GIVES[change.owner]} {change.label}" if change.owner else "total"
    amounts = (change.before_usd, change.after_usd, change.difference_usd)
    before, after, more = (usd(amount, CENT) for amount in amounts)
    return f"{name:<42} {before:>14} {after:>14} {more:>+14}"
