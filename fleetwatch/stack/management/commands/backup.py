"""`manage.py backup FILE`: the hub's data in one file, while it runs."""

import argparse
from pathlib import Path
from typing import Any

from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.lib.commands import HubCommand
from fleetwatch.stack import backup


class Command(HubCommand):
    refusals = (backup.BackupError,)
    help = (
        "Write all of the hub's data to FILE. Keep SECRET_KEY too: channels' passwords can't be"
        " read without it."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--force", action="store_true", help="overwrite FILE where it exists")

    def handle(self, *args: Any, **options: Any) -> None:
        backup.write(
            options["file"],
            now=timezone.now(),
            say=lambda table: self.stdout.write(f"saved {table}"),
            overwrites=options["force"],
        )
        size = options["file"].stat().st_size
        record("export.backup", str(options["file"]), bytes=size)
        self.stdout.write(f"{options['file']}: {size:,} bytes")
