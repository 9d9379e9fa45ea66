"""`manage.py import_mappings FILE [--dry-run]`: adds the mapping rules of a CSV file; exit 1 when
refused, 2 when it can't be read.
"""

from functools import partial
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.costs.management import importing
from fleetwatch.costs.mapping import mapping_imports
from fleetwatch.costs.mapping.mapping_csv import COLUMNS, MAX_BYTES
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    help = (
        f"Adds the mapping rules of a CSV file, all or none of them. Columns: {', '.join(COLUMNS)}"
        " (docs/money.md)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        importing.add_arguments(parser)

    def handle(self, *args: Any, file: str, dry_run: bool, **options: Any) -> None:
        content, now = importing.content(self, file, max_bytes=MAX_BYTES), timezone.now()
        if dry_run:
            importing.show(
                self, file, partial(mapping_imports.dry_run, content, now=now), what="rules"
            )
        else:
            importing.do(
                self, file, partial(mapping_imports.import_mappings, content, now=now), what="rules"
            )
