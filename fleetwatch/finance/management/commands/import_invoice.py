"""`manage.py import_invoice FILE --month 2026-10 [--replace] [--dry-run]`: takes an invoice and
says how it differs from the ledger.

Exit 1 when it was refused, 2 when it can't be read.
"""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from django.utils import timezone

from fleetwatch.figures.pricing import CENT, usd
from fleetwatch.finance.invoice_csv import COLUMNS, MAX_BYTES
from fleetwatch.finance.invoices import Imported, InvoiceError, import_invoice
from fleetwatch.finance.reconciliation import Reconciliation, reconciliation
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.csv_rows import RefusedError
from fleetwatch.lib.input_file import read_input

NAMES = ("committed_usd", "unobserved_usd", "hours_usd", "rate_usd", "other_usd")


class Command(HubCommand):
    help = (
        f"Takes a month's invoice: FOCUS 1.2, or CSV with the columns {', '.join(COLUMNS)}"
        " (docs/reports.md)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="- reads standard input")
        parser.add_argument("--month", required=True, help="whose invoice it is, like 2026-10")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="it takes the place of the issuer's invoice that stands",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only say what it would be; nothing is kept"
        )

    def handle(
        self, *args: Any, file: str, month: str, replace: bool, dry_run: bool, **options: Any
    ) -> None:
        content = self._content(file)
        now = timezone.now()
        try:
            # a look is the import itself, taken back: what is shown is what comes
            with transaction.atomic():
                done = import_invoice(
                    content, month, now=now, file_name=Path(file).name, replace=replace or dry_run
                )
                found = reconciliation(month, now=now)
                transaction.set_rollback(dry_run)
        except RefusedError as error:
            self._refuse([f"{file}: {fault}" for fault in error.faults])
        except InvoiceError as error:
            self._refuse([str(error)])
        self._show(done, found, dry_run=dry_run)

    def _content(self, file: str) -> bytes:
        try:
            return read_input(file, max_bytes=MAX_BYTES)
        except OSError as error:
            self.stderr.write(f"{file}: {error.strerror}")
            sys.exit(2)

    def _refuse(self, texts: list[str]) -> None:
        for text in [*texts, "nothing was imported"]:
            self.stderr.write(text)
        sys.exit(1)

    def _show(self, done: Imported, found: Reconciliation, *, dry_run: bool) -> None:
        what = (
            "stands already" if not done.is_new else "would be imported" if dry_run else "imported"
        )
        instead = (
            ", in place of the one that stands"
            if done.replaced and dry_run
            else ", in place of the one before"
            if done.replaced
            else ""
        )
        self.stdout.write(
            f"{what}{instead}: {done.rows} rows, {done.lines} lines, {usd(done.usd, CENT)} USD"
        )
        self.stdout.write(
            f"{'':<34}{'difference':>14}"
            + "".join(f"{name.removesuffix('_usd'):>14}" for name in NAMES)
            + f"{'open':>14}"
        )
        for line in [*found.lines, found.total]:
            amounts = [
                line.gap.difference_usd,
                *(getattr(line.gap, name) for name in NAMES),
                line.open.open_usd,
            ]
            self.stdout.write(
                f"{line.label[:33]:<34}" + "".join(f"{usd(amount, CENT):>14}" for amount in amounts)
            )
