"""What all of our management commands are."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from django.core.management.base import BaseCommand, CommandParser


class HubCommand(BaseCommand):
    """Starts at once: pages and models are checked by `make lint`, not before each command."""

    requires_system_checks: list[str] = []


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
            self.stderr.write(f"{file}: {error.strerror}")
            sys.exit(2)

    def refuse(self, texts: Iterable[str]) -> NoReturn:
        """Says why nothing was done; exit 1."""
        for text in texts:
            self.stderr.write(text)
        sys.exit(1)
