"""`manage.py restore FILE`: a backup into an empty hub."""

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from fleetwatch.lib.commands import HubCommand
from fleetwatch.stack import backup


class Command(HubCommand):
    help = "Load a backup into an empty hub and migrate it to this version."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            backup.restore(options["file"], say=lambda table: self.stdout.write(f"loaded {table}"))
        except backup.BackupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write("restored")
