"""What the commands that import a file of rates or rules have in common: what they ask for, and
what they say.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

from django.core.management.base import BaseCommand, CommandParser

from fleetwatch.costs.difference import DryRun, Imported
from fleetwatch.costs.mapping.rule_terms import GIVES
from fleetwatch.figures.pricing import CENT, usd
from fleetwatch.lib.csv_rows import RefusedError
from fleetwatch.lib.input_file import read_input

Told = TypeVar("Told")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="- reads standard input")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only say what it would change in the last closed 30 days",
    )


def content(command: BaseCommand, file: str, *, max_bytes: int) -> bytes:
    """What is in the file; exit 2 where it can't be read."""
    try:
        return read_input(file, max_bytes=max_bytes)
    except OSError as error:
        command.stderr.write(f"{file}: {error.strerror}")
        sys.exit(2)


def show(command: BaseCommand, file: str, look: Callable[[], DryRun], *, what: str) -> None:
    """Says what the file would change; exit 1 where it is refused."""
    found = _taken(command, file, look)
    _warn(command, file, found.would)
    start, end = found.interval.start, found.interval.end
    command.stdout.write(
        f"would set {found.would.set} {what}, {found.would.stood} stand already; nothing was set"
    )
    command.stdout.write(
        f"dollars from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, before, after and the"
        " difference:"
    )
    for change in [*found.changes, found.total]:
        amounts = [
            usd(amount, CENT)
            for amount in (change.before_usd, change.after_usd, change.difference_usd)
        ]
        name = f"{GIVES[change.owner]} {change.label}" if change.owner else "total"
        command.stdout.write(f"{name:<42} {amounts[0]:>14} {amounts[1]:>14} {amounts[2]:>+14}")


def do(command: BaseCommand, file: str, act: Callable[[], Imported], *, what: str) -> None:
    """Imports the file; exit 1 where it is refused."""
    done = _taken(command, file, act)
    _warn(command, file, done)
    command.stdout.write(f"{done.set} {what} set, {done.stood} stood already")


def _warn(command: BaseCommand, file: str, done: Imported) -> None:
    for doubt in done.doubts:
        command.stderr.write(f"{file}: {doubt}")


def _taken(command: BaseCommand, file: str, act: Callable[[], Told]) -> Told:
    try:
        return act()
    except RefusedError as error:
        for fault in error.faults:
            command.stderr.write(f"{file}: {fault}")
        command.stderr.write("nothing was set")
        sys.exit(1)
