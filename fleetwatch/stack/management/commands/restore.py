"""`manage.py restore FILE`: a backup into an empty hub."""

import argparse
from pathlib import Path
from typing import Any

from fleetwatch.lib.commands import HubCommand
from fleetwatch.stack import backup


class Command(HubCommand):
    refusals = (backup.BackupError,)
    help = "Load a backup into an empty hub and migrate it to this version."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        backup.restore(options["file"], say=lambda table: self.stdout.write(f"loaded {table}"))
        self.stdout.write("restored")
