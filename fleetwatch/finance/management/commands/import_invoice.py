"""`manage.py import_invoice FILE --month 2026-10 [--replace] [--dry-run]`: takes an invoice and
says how it differs from the ledger.

Exit 1 when it was refused, 2 when it can't be read.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from django.utils import timezone

from fleetwatch.figures.pricing import CENT, usd
from fleetwatch.finance.gaps import PARTS
from fleetwatch.finance.invoice_csv import COLUMNS, MAX_BYTES
from fleetwatch.finance.invoices import Imported, InvoiceError, import_invoice
from fleetwatch.finance.reconciliation import Reconciliation, reconciliation
from fleetwatch.lib.commands import FileCommand
from fleetwatch.lib.csv_files.csv_rows import RefusedError

NOTHING = "nothing was imported"
HEADS = ["difference", *(name.removesuffix("_usd") for name in PARTS), "open"]


class Command(FileCommand):
    help = (
        f"Takes a month's invoice: FOCUS 1.2, or CSV with the columns {', '.join(COLUMNS)}"
        " (docs/reports.md)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
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
        content = self.content(file, max_bytes=MAX_BYTES)
        now = timezone.now()
        try:
            # a look is the import itself, taken back: what is shown is what comes
            with transaction.atomic():
                done = import_invoice(
                    content, month, now=now, file_name=Path(file).name, replace=replace or dry_run
                )
                beside = reconciliation(month, now=now)
                transaction.set_rollback(dry_run)
        except RefusedError as error:
            self.refuse([*(f"{file}: {fault}" for fault in error.faults), NOTHING])
        except InvoiceError as error:
            self.refuse([str(error), NOTHING])
        self.stdout.write(_outcome(done, dry_run=dry_run))
        self._show(beside)

    def _show(self, beside: Reconciliation) -> None:
        self.stdout.write(_row("", HEADS))
        for line in [*beside.lines, beside.total]:
            parts = [getattr(line.gap, name) for name in PARTS]
            amounts = [line.gap.difference_usd, *parts, line.open.open_usd]
            self.stdout.write(_row(line.label[:33], (usd(amount, CENT) for amount in amounts)))


def _outcome(done: Imported, *, dry_run: bool) -> str:
    what = "would be imported" if dry_run else "imported"
    if not done.is_new:
        what = "stands already"
    elif done.replaced:
        what += f", in place of the one {'that stands' if dry_run else 'before'}"
    return f"{what}: {done.rows} rows, {done.lines} lines, {usd(done.usd, CENT)} USD"


def _row(label: str, cells: Iterable[object]) -> str:
    return f"{label:<34}" + "".join(f"{cell!s:>14}" for cell in cells)
