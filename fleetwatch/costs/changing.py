"""What every change of what holds over time (rates, commitments, mapping rules) keeps to: one at a
time, at cuts of the ledger, and never in a closed month.
"""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.db.models import Model

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.figures import boundaries
from fleetwatch.ledger.months.closing import keep_open
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import wait_for_lock


@dataclass(frozen=True, slots=True)
class Book:
    """What holds over time, and in which words a change of it is refused."""

    lock: str
    error: type[RefusedFieldError]
    row: str  # what changes
    closed: str  # why nothing changes before a {day}


RATES = Book(
    "costs.rate_book", RateError, "rate", "All before {day} is closed and keeps its dollars."
)


@dataclass(frozen=True, slots=True)
class OpenBook:
    """What changes keep to while nobody else makes any: it holds until the transaction that opened
    the book ends.
    """

    book: Book
    zone: ZoneInfo
    closed_until: datetime | None

    def check_open(self, since: datetime, *, field: str = "valid_from", text: str = "") -> None:
        """Raises the book's error (the text, where there is one) where a change from `since` on
        would change a closed month.
        """
        closed = self.closed_until
        if closed is not None and since < closed:
            day = f"{closed.astimezone(self.zone):%Y-%m-%d}"
            raise self.book.error((text or self.book.closed).format(day=day), field=field)

    def check_moment(self, moment: datetime, *, field: str) -> None:
        """Raises the book's error where entries are not cut at the moment."""
        if not boundaries.is_cut(moment, self.zone):
            raise self.book.error(
                f"A {self.book.row} changes on a full UTC hour or at midnight in {self.zone.key},"
                f" not at {moment}.",
                field=field,
            )

    def check_end(self, valid_from: datetime, valid_to: datetime | None, *, row: str = "") -> None:
        """Raises the book's error for an end (None: it is open) that can't be of a row that begins
        then.
        """
        if valid_to is None:
            return
        self.check_moment(valid_to, field="valid_to")
        if valid_to <= valid_from:
            row = row or self.book.row
            raise self.book.error(f"A {row} has to end after it begins.", field="valid_to")

    def read_again(self, row: Model) -> None:
        """The row becomes what it is now.

        Raises the book's error where somebody withdrew it while we waited.
        """
        try:
            row.refresh_from_db()
        except type(row).DoesNotExist:  # type: ignore[attr-defined]
            raise self.book.error("Somebody withdrew it meanwhile.", field="") from None


def open_book(book: Book) -> OpenBook:
    """Makes others who change the book wait, and keeps open what is, until the transaction ends."""
    wait_for_lock(book.lock)
    keep_open()
    return OpenBook(book, zone(), closed_until())
