"""The period and the page that a request asks for."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.back_test import Trials
from fleetwatch.diagnosis.findings.patterns import Patterns
from fleetwatch.diagnosis.findings.ranked_findings import Findings
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import Interval, from_ms

Thing = TypeVar("Thing")
Row = Callable[[Any], Any]
Rows = Sequence[Any] | QuerySet[Any] | Findings | Patterns | Trials

DEFAULT = "24h"
INBOX = "7d"  # of findings, as the page's
LONGEST = timedelta(days=timeframes.MAX_DAYS)
ALWAYS = Interval(timeframes.EARLIEST, timeframes.LATEST)  # of lists that a period only narrows
MAX_OFFSET = 10_000_000  # far beyond any list: a larger one was made up


class RequestError(ValueError):
    """Something that was asked for and can't be answered; `field` is the parameter, `status` 404 or
    422.
    """

    def __init__(self, message: str, *, field: str | None, status: int = 422) -> None:
        super().__init__(message)
        self.field = field
        self.status = status


def required(thing: Thing | None, name: str, *, field: str) -> Thing:
    """The thing. Raises RequestError (404) where there is none."""
    if thing is None:
        raise RequestError(f"there is no such {name}", field=field, status=404)
    return thing


@dataclass(frozen=True, slots=True)
class Asked:
    """A period, and where in the list a page begins.

    A cursor keeps the period: `now` stays what it was on page one.
    """

    interval: Interval
    offset: int

    def echo(self) -> dict[str, datetime]:
        """The period as asked for, and what of it figures cover: nothing is known of what comes."""
        start = self.interval.start
        end = self.interval.end
        return {
            "from": start,
            "to": end,
            "covered_from": start,
            "covered_to": max(start, min(end, timezone.now())),
        }

    def answer(self, **facts: Any) -> dict[str, Any]:
        """The facts, and the period that they are of."""
        return self.echo() | facts

    def listed(self, rows: Rows, limit: int, row: Row = lambda row: row) -> dict[str, Any]:
        """One page of an answer: as `row` makes them the rows, and the next page's cursor."""
        page, following = self.page(rows, limit)
        return {"rows": [row(each) for each in page], "next_cursor": following}

    def page(self, rows: Rows, limit: int) -> tuple[list[Any], str | None]:
        """The rows of this page, and the next page's cursor (None: this is the last)."""
        page = list(rows[self.offset : self.offset + limit + 1])
        return page[:limit], self.following(limit, more=len(page) > limit)

    def following(self, limit: int, *, more: bool) -> str | None:
        """The next page's cursor, where there are more rows than those of this page."""
        if not more:
            return None
        facts = [self.interval.start_ms, self.interval.end_ms, self.offset + limit]
        packed = json.dumps(facts, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def asked(request: HttpRequest, *, default: str = DEFAULT, whole: Interval | None = None) -> Asked:
    """The last 24 hours unless `from`, `to`, `range` or a `cursor` say otherwise; `whole`, where
    given, in the place of the default.

    Raises RequestError or TimeframeError.
    """
    period = _asked(request, default, whole)
    # a cursor's numbers are as free as any
    interval = period.interval
    if interval.start < timeframes.EARLIEST or interval.end > timeframes.LATEST:
        raise RequestError(
            f"a period lies between {timeframes.EARLIEST:%Y} and {timeframes.LATEST:%Y}",
            field="from",
        )
    longest = LONGEST if whole is None else max(LONGEST, whole.end - whole.start)
    if interval.end - interval.start > longest:
        raise RequestError(f"a period is at most {LONGEST.days} days long", field="from")
    return period


def _asked(request: HttpRequest, default: str, whole: Interval | None) -> Asked:
    if cursor := request.GET.get("cursor"):
        return _read_cursor(cursor)
    if whole is not None and request.GET.keys().isdisjoint(timeframes.NAMES):
        return Asked(whole, 0)
    frame = timeframes.parse(request.GET.dict(), now=timezone.now(), zone=zone(), default=default)
    return Asked(frame.interval, 0)


def _read_cursor(cursor: str) -> Asked:
    try:
        start_ms, end_ms, offset = json.loads(
            base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        )
        if type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
            raise ValueError(offset)
        return Asked(Interval(from_ms(start_ms), from_ms(end_ms)), offset)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise RequestError(
            "this is no cursor of ours: take next_cursor of the page before", field="cursor"
        ) from None
