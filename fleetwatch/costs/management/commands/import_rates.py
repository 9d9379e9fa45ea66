"""`manage.py import_rates FILE [--dry-run]`: sets the rates of a CSV file; exit 1 when it was
refused, 2 when it can't be read.
"""

from functools import partial
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fleetwatch.costs.management import importing
from fleetwatch.costs.rates import imports
from fleetwatch.costs.rates.rate_csv import COLUMNS, MAX_BYTES
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand):
    help = (
        f"Sets the rates of a CSV file, all or none of them. Columns: {', '.join(COLUMNS)}"
        " (docs/money.md)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        importing.add_arguments(parser)

    def handle(self, *args: Any, file: str, dry_run: bool, **options: Any) -> None:
        content, now = importing.content(self, file, max_bytes=MAX_BYTES), timezone.now()
        if dry_run:
            importing.show(self, file, partial(imports.dry_run, content, now=now), what="rates")
        else:
            importing.do(self, file, partial(imports.import_rates, content, now=now), what="rates")
