"""Rates by the file: all of it or nothing, and what it would change in dollars before anything is written."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import cuts, selectors, services
from fleetwatch.costs.rate_csv import Row, read
from fleetwatch.costs.subjects import BEGINNING, RateError, Subject, find
from fleetwatch.costs.totals import ZERO, Totals, nothing
from fleetwatch.lib.csv_rows import MAX_FAULTS, Fault, RefusedError
from fleetwatch.lib.intervals import Interval

LOOKS_BACK_DAYS = 30
# field of the service -> column of the file
_COLUMNS = {"node_class": "class", "subject": ""}


@dataclass(frozen=True, slots=True)
class Imported:
    """How many rates were set, and how many of the file stood already."""

    set: int
    stood: int


@dataclass(frozen=True, slots=True)
class Change:
    """What a team's time costs before and after, in dollars; `label` as totals_by names it."""

    label: str
    before_usd: Decimal
    after_usd: Decimal

    @property
    def difference_usd(self) -> Decimal:
        return self.after_usd - self.before_usd


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a file would do to the dollars of the last closed 30 days."""

    interval: Interval
    changes: list[Change]  # every team and what no job held, the largest difference first
    total: Change
    unpriced_ms_before: int
    unpriced_ms_after: int
    would: Imported


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A row of the file with its subject; `until` is its end, or where the file's next rate of the subject begins."""

    row: Row
    subject: Subject
    since: datetime
    until: datetime | None


@transaction.atomic
def import_rates(content: bytes, *, now: datetime) -> Imported:
    """Sets every rate of the file. Twice is once: what stands as the file has it is left alone.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    wanted = _wanted(read(content, zone()))
    new = [each for each in wanted if not _stands(each)]
    faults = [fault for each in new if (fault := _set(each, now)) is not None]
    _refuse(faults)
    return Imported(set=len(new), stood=len(wanted) - len(new))


def dry_run(content: bytes, *, now: datetime) -> DryRun:
    """What import_rates would change in the dollars of the last closed 30 days, per team; nothing is written.

    It is the import itself, taken back: what is shown is what comes. Raises RefusedError as it does.
    """
    interval = closed_days(now)
    with transaction.atomic():
        before = _by_team(interval)
        would = import_rates(content, now=now)
        after = _by_team(interval)
        transaction.set_rollback(True)
    changes = [_change(before.get(key), after.get(key)) for key in before.keys() | after.keys()]
    return DryRun(
        interval=interval,
        changes=sorted(changes, key=lambda change: (-abs(change.difference_usd), change.label)),
        total=Change("", sum((each.before_usd for each in changes), ZERO), sum((each.after_usd for each in changes), ZERO)),
        unpriced_ms_before=sum(group.totals.unpriced_ms for group in before.values()),
        unpriced_ms_after=sum(group.totals.unpriced_ms for group in after.values()),
        would=would,
    )


def closed_days(now: datetime) -> Interval:
    """The last 30 days of the organisation that are over."""
    organisation_zone = zone()
    end = cuts.midnight(now, organisation_zone)
    return Interval(cuts.midnight(end, organisation_zone, days=-LOOKS_BACK_DAYS), end)


def _by_team(interval: Interval) -> dict[str, selectors.Group]:
    return {group.key: group for group in selectors.totals_by(interval, "team")}


def _change(before: selectors.Group | None, after: selectors.Group | None) -> Change:
    group = after or before
    return Change(group.label if group else "", _totals(before).cost_usd, _totals(after).cost_usd)


def _totals(group: selectors.Group | None) -> Totals:
    return nothing() if group is None else group.totals


def _wanted(rows: Sequence[Row]) -> list[_Wanted]:
    """The rows with their subjects, the oldest first. Raises RefusedError."""
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
    ended = []
    for each in reversed(wanted):
        later = following.get(each.subject)
        if later is not None and (later.since == each.since or (each.until is not None and each.until > later.since)):
            faults.append(Fault(later.row.line, "valid_from", f"Line {each.row.line} has a rate of {each.subject.name} for that time too."))
        following[each.subject] = each
        ended.append(replace(each, until=later.since) if later is not None and each.until is None else each)
    _refuse(faults)
    return list(reversed(ended))


def _refuse(faults: Sequence[Fault]) -> None:
    """Raises RefusedError if there are any."""
    if faults:
        raise RefusedError(sorted(faults, key=lambda fault: fault.line)[:MAX_FAULTS])


def _stands(wanted: _Wanted) -> bool:
    """Whether the book has this very rate."""
    row = wanted.row
    price = {"price_per_gpu_hour": row.price, "currency": row.currency, "is_example": False}
    return wanted.subject.rates.filter(valid_from=wanted.since, valid_to=wanted.until, **price).exists()


def _set(wanted: _Wanted, now: datetime) -> Fault | None:
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
        )
    except RateError as error:
        return Fault(row.line, _COLUMNS.get(error.field, error.field), str(error))
    return None
