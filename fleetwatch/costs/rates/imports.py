"""Rates by the file: all of it or nothing, and what it would change in dollars before anything is
written.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise

from django.db import transaction

from fleetwatch.costs import difference, services
from fleetwatch.costs.changing import RATES, OpenBook, open_book
from fleetwatch.costs.difference import DryRun, Imported
from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.rate_csv import Row, read
from fleetwatch.costs.rates.subjects import BEGINNING, RateError, Subject, find
from fleetwatch.lib.csv_rows import Fault, refuse

# field of the service -> column of the file
_COLUMNS = {"node_class": "class", "subject": ""}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A line of the file, its subject and its rate, which ends where the file's next one of the
    subject begins.
    """

    row: Row
    subject: Subject
    rate: Rate


@transaction.atomic
def import_rates(content: bytes, *, now: datetime) -> Imported:
    """Sets every rate of the file. Twice is once: what stands as the file has it is left alone.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    book = open_book(RATES)
    rows, faults = read(content, book.zone)
    wanted = _wanted(rows, faults)
    new = [each for each in wanted if not _stands(each)]
    for each in new:
        _set(book, each, now, faults)
    # of all lines at once: who puts the first one right would only be told the next
    refuse(faults)
    return Imported(set=len(new), stood=len(wanted) - len(new), doubts=tuple(_doubts(wanted)))


def dry_run(content: bytes, *, now: datetime) -> DryRun:
    """What import_rates would change in the dollars of the last closed 30 days, per team; nothing
    is written. Raises RefusedError.
    """
    return difference.dry_run(partial(import_rates, content, now=now), now)


def _wanted(rows: Sequence[Row], faults: list[Fault]) -> list[_Wanted]:
    """The rows with their subjects, of each the oldest first; what is wrong with others is added to
    the faults.
    """
    by_subject: dict[Subject, list[_Wanted]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.valid_from or BEGINNING):
        try:
            subject = find(row.kind, row.name, node_class=row.node_class, region=row.region)
        except RateError as error:
            faults.append(Fault(row.line, error.field, str(error)))
            continue
        by_subject[subject].append(_Wanted(row, subject, _rate(row, subject)))
    return [each for several in by_subject.values() for each in _in_turn(several, faults)]


def _rate(row: Row, subject: Subject) -> Rate:
    return Rate(
        **subject.fields,
        price_per_gpu_hour=row.price,
        currency=row.currency,
        valid_from=row.valid_from or BEGINNING,
        valid_to=row.valid_to,
        pricing_class=row.pricing_class,
        source=row.source or "imported",
        source_date=row.source_date,
    )


def _in_turn(several: Sequence[_Wanted], faults: list[Fault]) -> list[_Wanted]:
    """The rates of one subject, each ending where the next one begins; two for one time are a
    fault.
    """
    clashing: set[int] = set()
    for earlier, later in pairwise(several):
        begins = later.rate.valid_from
        earlier.rate.valid_to = earlier.rate.valid_to or begins
        if earlier.rate.valid_from == begins or earlier.rate.valid_to > begins:
            clashing |= {earlier.row.line, later.row.line}
            text = f"Line {earlier.row.line} has a rate of {later.subject.name} for that time too."
            faults.append(Fault(later.row.line, "valid_from", text))
    return [each for each in several if each.row.line not in clashing]


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
    names = ("valid_from", "valid_to", "price_per_gpu_hour", "currency", "is_example")
    wants = {name: getattr(wanted.rate, name) for name in names}
    return wanted.subject.rates.filter(**wants).exists()


def _set(book: OpenBook, wanted: _Wanted, now: datetime, faults: list[Fault]) -> None:
    try:
        services.set_rate(wanted.rate, now=now, book=book)
    except RateError as error:
        field = _COLUMNS.get(error.field, error.field)
        faults.append(Fault(wanted.row.line, field, str(error)))
