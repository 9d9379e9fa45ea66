"""Rates by the file: all of it or nothing, and what it would change in dollars before anything is
written.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise

from django.db import transaction
from django.db.models import Q

from fleetwatch.costs import difference, services
from fleetwatch.costs.changing import RATES, OpenBook, open_book
from fleetwatch.costs.difference import DryRun, Imported, SetRate
from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.rate_csv import Row, read
from fleetwatch.costs.rates.subjects import FIELDS, RateError, doubt, find, rates_like, subject_name
from fleetwatch.lib.csv_files.csv_rows import Fault, refuse

# field of the service -> column of the file
_COLUMNS = {"node_class": "class", "subject": ""}


@transaction.atomic
def import_rates(content: bytes, *, now: datetime) -> Imported:
    """Sets every rate of the file. Twice is once: what stands as the file has it is left alone.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    book = open_book(RATES)
    rows, faults = read(content, book.zone)
    rows = _of_subjects(rows, faults)
    new = [row for row in rows if not _stands(row.rate)]
    rates = tuple(SetRate(subject_name(row.rate), row.rate, _before(row.rate)) for row in new)
    for row in new:
        _set(book, row, now, faults)
    # of all lines at once: who puts the first one right would only be told the next
    refuse(faults)
    doubts = tuple(_doubts(rows))
    return Imported(set=len(new), stood=len(rows) - len(new), doubts=doubts, rates=rates)


def dry_run(content: bytes, *, now: datetime) -> DryRun:
    """What import_rates would change in the dollars of the last closed 30 days, per team; nothing
    is written. Raises RefusedError.
    """
    return difference.dry_run(partial(import_rates, content, now=now), now)


def _of_subjects(rows: Sequence[Row], faults: list[Fault]) -> list[Row]:
    """The rows, each rate with its subject, of each the oldest first; what is wrong with others is
    added to the faults.
    """
    by_subject: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.rate.valid_from):
        try:
            [(kind, thing)] = find(row.kind, row.name).items()
        except RateError as error:
            faults.append(Fault(row.line, error.field, str(error)))
            continue
        setattr(row.rate, kind, thing)
        by_subject[tuple(getattr(row.rate, name) for name in FIELDS)].append(row)
    return [row for several in by_subject.values() for row in _in_turn(several, faults)]


def _in_turn(several: Sequence[Row], faults: list[Fault]) -> list[Row]:
    """The rates of one subject, each ending where the file's next one begins; two for one time are
    a fault.
    """
    clashing: set[int] = set()
    for earlier, later in pairwise(several):
        begins = later.rate.valid_from
        earlier.rate.valid_to = earlier.rate.valid_to or begins
        if earlier.rate.valid_from == begins or earlier.rate.valid_to > begins:
            clashing |= {earlier.line, later.line}
            name = subject_name(later.rate)
            text = f"Line {earlier.line} has a rate of {name} for that time too."
            faults.append(Fault(later.line, "valid_from", text))
    return [row for row in several if row.line not in clashing]


def _doubts(rows: Sequence[Row]) -> list[Fault]:
    """What can be set and is like a slip of the pen, by line."""
    return [
        Fault(row.line, row.kind, text)
        for row in sorted(rows, key=lambda row: row.line)
        if (text := doubt(row.rate))
    ]


def _stands(rate: Rate) -> bool:
    """Whether the book has this very rate."""
    names = ("valid_from", "valid_to", "price_per_gpu_hour", "currency", "is_example")
    return rates_like(rate).filter(**{name: getattr(rate, name) for name in names}).exists()


def _before(rate: Rate) -> Rate | None:
    """What its subject costs when it begins."""
    holds = Q(valid_to=None) | Q(valid_to__gt=rate.valid_from)
    return rates_like(rate).filter(holds, valid_from__lte=rate.valid_from).first()


def _set(book: OpenBook, row: Row, now: datetime, faults: list[Fault]) -> None:
    try:
        services.set_rate(row.rate, now=now, book=book)
    except RateError as error:
        field = _COLUMNS.get(error.field, error.field)
        faults.append(Fault(row.line, field, str(error)))
