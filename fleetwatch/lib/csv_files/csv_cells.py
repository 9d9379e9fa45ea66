"""Cells of CSV files that people write: texts of a sensible length, days and moments. Pure."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from fleetwatch.lib.csv_files.csv_rows import FieldError

MAX_FIELD = 300
NO_DATE = "A date like 2026-11-01, please, not {!r}."


def check_texts(cells: Mapping[str, str]) -> None:
    """Raises FieldError for a cell that is too long or has control characters."""
    for field, text in cells.items():
        if len(text) > MAX_FIELD or not text.isprintable():
            raise FieldError(
                field, f"At most {MAX_FIELD} letters and no control characters, please."
            )


def begins(field: str, text: str, zone: ZoneInfo) -> datetime | None:
    """The moment from which something holds, None = from the beginning.

    Raises FieldError, also where it is empty.
    """
    if not text:
        raise FieldError(field, "From when on? A date like 2026-11-01, or beginning.")
    return None if text.lower() == "beginning" else moment(field, text, zone)


def moment(field: str, text: str, zone: ZoneInfo) -> datetime | None:
    """The field as a moment in UTC: a day's midnight in the zone, or a time with its offset; None
    where it is empty. Raises FieldError.
    """
    try:
        return _moment(text, zone) if text else None
    except (ValueError, OverflowError):
        raise FieldError(field, NO_DATE.format(text[:40])) from None


def day(field: str, text: str) -> date | None:
    """The field as a day, None where it is empty. Raises FieldError."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise FieldError(field, NO_DATE.format(text[:40])) from None


def _moment(text: str, zone: ZoneInfo) -> datetime:
    if len(text) == len("2026-11-01"):
        return datetime.combine(date.fromisoformat(text), time.min, tzinfo=zone).astimezone(UTC)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("without an offset nobody knows when it is")
    return moment.astimezone(UTC)
