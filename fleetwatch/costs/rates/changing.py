"""What every change of the rate book keeps to: one at a time, at cuts of the ledger, and never in a
closed month.
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
from fleetwatch.lib.sql import wait_for_lock

_BOOK = "costs.rate_book"


def read_again(row: Model) -> None:
    """The row becomes what it is now: others who change the book have to wait.

    Raises RateError where one of them withdrew it.
    """
    wait_for_lock(_BOOK)
    try:
        row.refresh_from_db()
    except type(row).DoesNotExist:  # type: ignore[attr-defined]
        raise RateError("Somebody withdrew it meanwhile.", field="") from None


@dataclass(frozen=True, slots=True)
class OpenBook:
    """What changes keep to while nobody else makes any: it holds until the transaction that opened
    the book ends.
    """

    zone: ZoneInfo
    closed_until: datetime | None

    def check_open(self, since: datetime) -> None:
        """Raises RateError where a change from `since` on would reprice a closed month."""
        closed = self.closed_until
        if closed is not None and since < closed:
            raise RateError(
                f"All before {closed.astimezone(self.zone):%Y-%m-%d} is closed and keeps its"
                " dollars.",
                field="valid_from",
            )

    def check_moment(self, moment: datetime, *, field: str) -> None:
        """Raises RateError where entries are not cut at the moment."""
        if not boundaries.is_cut(moment, self.zone):
            raise RateError(
                f"A rate changes on a full UTC hour or at midnight in {self.zone.key}, not at"
                f" {moment}.",
                field=field,
            )


def open_book() -> OpenBook:
    """Makes others who change the book wait, and keeps open what is, until the transaction ends."""
    wait_for_lock(_BOOK)
    keep_open()
    return OpenBook(zone(), closed_until())


def write(since: datetime) -> None:
    """Opens the book for one change. Raises RateError where it would reprice a closed month."""
    open_book().check_open(since)


def check_moment(moment: datetime, *, field: str) -> None:
    """Raises RateError where entries are not cut at the moment."""
    OpenBook(zone(), None).check_moment(moment, field=field)
