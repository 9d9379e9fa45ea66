"""Closing a month: from then on posting leaves its entries alone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.db import transaction
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.ledger.models import ClosedMonth, Entry
from fleetwatch.ledger.months import policy_plan
from fleetwatch.ledger.selectors import current_policy, longest_reach_ms
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import execute, lock_key, wait_for_lock
from fleetwatch.telemetry.models import TouchedHour

MAX_REASON = 300
_LOCK = "ledger.closed_months"


class ClosingError(RefusedFieldError):
    """A month that can't be closed; the text is a sentence for who asked."""


@dataclass(frozen=True, slots=True)
class OpenMonth:
    """The next month to be closed, its hours, and from when on it can be."""

    month: date
    interval: Interval
    closable_from: datetime


def next_month() -> OpenMonth | None:
    """The earliest month with hours that are not closed; None where there is none."""
    open_at = _earliest_entry(policy_plan.frontier().until_ms, timezone.now())
    if open_at is None:
        return None
    month = open_at.astimezone(zone()).date().replace(day=1)
    start, end = _bounds(month)
    return OpenMonth(month, Interval(start, end), _settled(end))


def _settled(end: datetime) -> datetime:
    """From when on nothing changes the hours of a month that ends then."""
    return from_ms(to_ms(end) + longest_reach_ms())


def keep_open() -> None:
    """Keeps what is open open until the caller's transaction ends; waits while a month is being
    closed.
    """
    execute("SELECT pg_advisory_xact_lock_shared(%s)", [lock_key(_LOCK)])


def read_month(text: str) -> date:
    """The first day of a month written like 2026-10. Raises ClosingError."""
    try:
        month = date.fromisoformat(f"{text}-01")
    except ValueError:
        month = date.min
    # the first and last years have no midnight before or after them in every zone
    if not date.min.year < month.year < date.max.year:
        raise ClosingError(f"Expected a month like 2026-10, not {text[:40]!r}.")
    return month


@transaction.atomic
def close_month(month: date, *, by: str, now: datetime, reason: str = "") -> ClosedMonth:
    """Closes a month of the organisation, for good. Raises ClosingError where it can't be.

    Waits for postings that run; those that begin meanwhile wait for it.
    """
    wait_for_lock(_LOCK)
    start, end = _bounds(month)
    policy_id, _ = current_policy()
    _check(month, start, end, settled=_settled(end), now=now)
    closed = ClosedMonth.objects.create(
        month=month,
        start=start,
        end=end,
        policy_id=policy_id,
        closed_at=now,
        closed_by=by[:200],
        reason=reason[:MAX_REASON],
    )
    record("month.close", f"{month:%Y-%m}", until=end.isoformat(), reason=closed.reason)
    return closed


def _bounds(month: date) -> tuple[datetime, datetime]:
    """The organisation's midnights around a month."""
    following = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    start, end = (
        datetime.combine(day, time(), tzinfo=zone()).astimezone(UTC) for day in (month, following)
    )
    return start, end


def _check(
    month: date, start: datetime, end: datetime, *, settled: datetime, now: datetime
) -> None:
    until_ms = policy_plan.frontier().until_ms
    name = f"{month:%Y-%m}"
    if to_ms(end) <= until_ms:
        raise ClosingError(f"{name} is closed already; what came later are adjustments.")
    if now < settled:
        raise ClosingError(
            f"{name} can be closed from {settled:%Y-%m-%d %H:%M} UTC on: until then its last hours"
            " may change."
        )
    if (open_at := _earliest_entry(until_ms, start)) is not None:
        raise ClosingError(
            f"{open_at.astimezone(zone()):%Y-%m} is still open: months are closed in their order."
        )
    if not Entry.objects.filter(start__gte=start, start__lt=end).exists():
        raise ClosingError(f"The ledger has no hour of {name}.")
    waiting = (
        TouchedHour.objects.filter(hour__lt=settled).values("node_id", "hour").distinct().count()
    )
    if waiting:
        raise ClosingError(
            f"{waiting} hours of {name} wait to be posted; try again when /status shows none."
        )


def _earliest_entry(since_ms: int, end: datetime) -> datetime | None:
    """The first hour cut with an entry from then on and before the end; None without one."""
    rows = Entry.objects.filter(start__lt=end)
    if since_ms > policy_plan.NEVER_MS:
        rows = rows.filter(start__gte=from_ms(since_ms))
    return rows.order_by("start").values_list("start", flat=True).first()
