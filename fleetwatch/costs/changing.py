"""What every change of the rate book keeps to: one at a time, at cuts of the ledger, and never in a closed month."""

from datetime import datetime

from django.db.models import Model

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import cuts
from fleetwatch.costs.subjects import RateError
from fleetwatch.ledger.closing import keep_open
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.sql import wait_for_lock

_BOOK = "costs.rate_book"


def read_again(row: Model) -> None:
    """The row becomes what it is now: others who change the book have to wait. Raises RateError where one of them withdrew it."""
    wait_for_lock(_BOOK)
    try:
        row.refresh_from_db()
    except type(row).DoesNotExist:  # type: ignore[attr-defined]
        raise RateError("Somebody withdrew it meanwhile.", field="") from None


def write(since: datetime) -> None:
    """Makes others who change the book wait, and keeps open what is, until the transaction ends.

    Raises RateError where a change from `since` on would reprice a closed month.
    """
    wait_for_lock(_BOOK)
    keep_open()
    closed = closed_until()
    if closed is not None and since < closed:
        raise RateError(f"All before {closed.astimezone(zone()):%Y-%m-%d} is closed and keeps its dollars.", field="valid_from")


def check_moment(moment: datetime, *, field: str) -> None:
    """Raises RateError where entries are not cut at the moment."""
    organisation_zone = zone()
    if not cuts.is_cut(moment, organisation_zone):
        raise RateError(f"A rate changes on a full UTC hour or at midnight in {organisation_zone.key}, not at {moment}.", field=field)
