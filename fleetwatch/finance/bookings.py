"""Writes of what is booked of a month's reconciliation: lines of dollars, each visible, each to be
withdrawn while its month is open.
"""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.finance.gaps import BOOKED_PARTS
from fleetwatch.finance.invoices import LOCK, InvoiceError, check_month
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.ledger.months.closing import keep_open
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.sql import wait_for_lock
from fleetwatch.reports import months
from fleetwatch.reports.models import InvoiceAdjustment

MAX_REASON = 300


@transaction.atomic
def book(
    name: str, keys: Collection[str], *, seen: str, reason: str, by: str, now: datetime
) -> list[InvoiceAdjustment]:
    """Books what is open of these lines, as lines of the month or, where that is closed, of the
    running one.

    `seen` is the fingerprint of what the person looked at. Raises InvoiceError where it has changed
    since, without a reason, where nothing is open, and for what is no month that has begun.
    """
    check_month(name, now)
    sentence = _sentence(reason)
    wait_for_lock(LOCK)
    keep_open()
    beside = reconciliation(name, now=now)
    if beside.fingerprint != seen:
        raise InvoiceError(
            "The invoice or the ledger changed since you looked: look again, then book.",
            field="seen",
        )
    chosen = [line for line in beside.lines if line.key in keys and line.is_open]
    if not chosen:
        raise InvoiceError("Choose at least one line that has something open.", field="keys")
    made = InvoiceAdjustment.objects.bulk_create(
        InvoiceAdjustment(
            month=name,
            booked_in=_booked_in(beside.month, now),
            key=line.key,
            label=line.label,
            **{name: getattr(line.open, name) for name in BOOKED_PARTS},
            reason=sentence,
            booked_at=now,
            booked_by=by,
        )
        for line in chosen
    )
    record("report.book", name, lines=len(made), reason=sentence)
    return made


def _sentence(reason: str) -> str:
    sentence = reason.strip()
    if not sentence or len(sentence) > MAX_REASON or not sentence.isprintable():
        raise InvoiceError(
            f"Why is it booked? A sentence of at most {MAX_REASON} letters, please.", field="reason"
        )
    return sentence


@transaction.atomic
def withdraw(booking: InvoiceAdjustment, *, by: str, now: datetime) -> None:
    """Takes a booking back; it stays readable.

    Raises InvoiceError where its month is closed: book the other way instead.
    """
    keep_open()
    locked = InvoiceAdjustment.objects.select_for_update().get(pk=booking.pk)
    if locked.withdrawn_at is not None:
        return
    if _is_closed(months.start(locked.booked_in, zone())):
        raise InvoiceError(
            f"{locked.booked_in} is closed and keeps its lines. Book the difference in an open"
            " month."
        )
    locked.withdrawn_at = now
    locked.withdrawn_by = by
    locked.save(update_fields=["withdrawn_at", "withdrawn_by"])
    record("report.book_withdraw", locked.month, line=locked.label)


def _booked_in(month: months.Month, now: datetime) -> str:
    return f"{now.astimezone(zone()):%Y-%m}" if _is_closed(month.interval.start) else month.name


def _is_closed(start: datetime) -> bool:
    closed = closed_until()
    return closed is not None and start < closed
