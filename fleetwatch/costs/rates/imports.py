"""Rates by the file: all of it or nothing, and what it would change in dollars before anything is
written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from django.db import transaction

from fleetwatch.costs import difference, services
from fleetwatch.costs.difference import DryRun, Imported
from fleetwatch.costs.rates.changing import OpenBook, open_book
from fleetwatch.costs.rates.rate_csv import Row, read
from fleetwatch.costs.rates.subjects import BEGINNING, RateError, Subject, find
from fleetwatch.lib.csv_rows import Fault, refuse

# field of the service -> column of the file
_COLUMNS = {"node_class": "class", "subject": ""}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A row of the file with its subject; `until` is its end, or where the file's next rate of the
    subject begins.
    """

    row: Row
    subject: Subject
    since: datetime
    until: datetime | None


@transaction.atomic
def import_rates(content: bytes, *, now: datetime) -> Imported:
    """Sets every rate of the file. Twice is once: what stands as the file has it is left alone.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    book = open_book()
    rows, faults = read(content, book.zone)
    wanted, clashes = _wanted(rows)
    new = [each for each in wanted if not _stands(each)]
    # of all lines at once: who puts the first one right would only be told the next
    refuse(
        [
            *faults,
            *clashes,
            *(fault for each in new if (fault := _set(book, each, now)) is not None),
        ]
    )
    return Imported(set=len(new), stood=len(wanted) - len(new), doubts=tuple(_doubts(wanted)))


def dry_run(content: bytes, *, now: datetime) -> DryRun:
    """What import_rates would change in the dollars of the last closed 30 days, per team; nothing
    is written. Raises RefusedError.
    """
    return difference.dry_run(partial(import_rates, content, now=now), now)


def _wanted(rows: Sequence[Row]) -> tuple[list[_Wanted], list[Fault]]:
    """The rows with their subjects, the oldest first, and what is wrong with the others."""
    wanted, faults = [], []
    for row in rows:
        try:
            subject = find(row.kind, row.name, node_class=row.node_class, region=row.region)
        except RateError as error:
            faults.append(Fault(row.line, error.field, str(error)))
            continue
        wanted.append(_Wanted(row, subject, row.valid_from or BEGINNING, row.valid_to))
    wanted.sort(key=lambda each: each.since)
    following: dict[Subject, _Wanted] = {}
    clashing: set[int] = set()
    ended = []
    for each in reversed(wanted):
        later = following.get(each.subject)
        if later is not None and (
            later.since == each.since or (each.until is not None and each.until > later.since)
        ):
            faults.append(
                Fault(
                    later.row.line,
                    "valid_from",
                    f"Line {each.row.line} has a rate of {each.subject.name} for that time too.",
                )
            )
            clashing |= {later.row.line, each.row.line}
        following[each.subject] = each
        ended.append(
            replace(each, until=later.since) if later is not None and each.until is None else each
        )
    return [each for each in reversed(ended) if each.row.line not in clashing], faults


def _doubts(wanted: Sequence[_Wanted]) -> list[Fault]:
    """What can be set and is like a slip of the pen, by line."""
    by_line = sorted(wanted, key=lambda each: each.row.line)
    return [
        Fault(each.row.line, each.row.kind, doubt)
        for each in by_line
        if (doubt := each.subject.doubt)
    ]


def _stands(wanted: _Wanted) -> bool:
    """Whether the book has this very rate."""
    row = wanted.row
    price = {"price_per_gpu_hour": row.price, "currency": row.currency, "is_example": False}
    return wanted.subject.rates.filter(
        valid_from=wanted.since, valid_to=wanted.until, **price
    ).exists()


def _set(book: OpenBook, wanted: _Wanted, now: datetime) -> Fault | None:
    row = wanted.row
    try:
        services.set_rate(
            wanted.subject,
            row.price,
            valid_from=wanted.since,
            valid_to=wanted.until,
            now=now,
            currency=row.currency,
            pricing_class=row.pricing_class,
            source=row.source or "imported",
            source_date=row.source_date,
            book=book,
        )
    except RateError as error:
        return Fault(row.line, _COLUMNS.get(error.field, error.field), str(error))
    return None
