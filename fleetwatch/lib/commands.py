"""What all of our management commands are."""

import getpass
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleetwatch.lib.actor import COMMAND, Actor, acting


class HubCommand(BaseCommand):
    """Starts at once: pages and models are checked by `make lint`, not before each command."""

    requires_system_checks: list[str] = []
    # the text of such an error is a sentence for who ran the command; exit 1
    refusals: tuple[type[Exception], ...] = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        with acting(_at_the_shell):
            try:
                return super().execute(*args, **options)
            except self.refusals as error:
                raise CommandError(str(error)) from error

    @property
    def by(self) -> str:
        """Who runs it, as it is kept."""
        return f"{_at_the_shell().name}, by manage.py"

    def refuse_argument(self, sentence: str) -> NoReturn:
        """Says what is wrong with an argument; exit 2."""
        self.stderr.write(sentence)
        sys.exit(2)

    def moment(self, name: str, text: str) -> datetime:
        """What the argument of that name says, in UTC where it says no offset; else exit 2."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.refuse_argument(
                f"{name}: expected a time like 2026-11-20 or 2026-11-20T15:00+00:00, not {text!r}"
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _at_the_shell() -> Actor:
    try:
        return Actor(getpass.getuser(), via=COMMAND)
    except (OSError, KeyError):  # a container's user may have no name
        return Actor(f"uid {os.getuid()}", via=COMMAND)


class FileCommand(HubCommand):
    """Takes a file by name, or as standard input."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="- reads standard input")

    def content(self, file: str, *, max_bytes: int) -> bytes:
        """The file's bytes, at most one more than max_bytes, so that too many are seen; exit 2
        where it can't be read.
        """
        try:
            with sys.stdin.buffer if file == "-" else Path(file).open("rb") as source:
                return source.read(max_bytes + 1)
        except OSError as error:
            self.refuse_argument(f"{file}: {error.strerror}")

    def refuse(self, texts: Iterable[str]) -> NoReturn:
        """Says why nothing was done; exit 1."""
        for text in texts:
            self.stderr.write(text)
        sys.exit(1)
