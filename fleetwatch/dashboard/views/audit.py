"""The audit log: who did what, when and from where; as a page, as CSV and as JSON lines."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from fleetwatch.accounts.audit import COLUMNS, KINDS, ROUTINE, as_row, entries
from fleetwatch.accounts.models import AuditEntry
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.dashboard.audit_words import audit_lines
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.pages import Pager
from fleetwatch.dashboard.parameters import PERIOD, refused, takes, takes_only
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import CSV, Context, file, page
from fleetwatch.reports.exports.files import to_csv

Row = dict[str, Any]

PAGE_SIZE = 25
MAX_LINES = 100_000  # of a file
FILTERS = ("who", "kind")


@require_GET
@needs(Right.PEOPLE)
@never_cache
@takes(*FILTERS, "logins", "after", *PERIOD)
def audit(request: HttpRequest) -> HttpResponse:
    """Without who merely came and went, unless the address asks for log-ins; files have all."""
    period = read_period(request, default="30d")
    name = request.GET.get("who", "")
    kind = chosen(request, "kind", KINDS)
    has_routine = kind == "login" or "logins" in request.GET
    every = entries(
        period.interval, name=name, kind=kind, leaving_out=() if has_routine else ROUTINE
    )
    context = {
        "name": name,
        "kind": kind,
        "kinds": KINDS.items(),
        "query": f"{period.timeframe.query}&{urlencode({'who': name, 'kind': kind})}",
        "has_routine": has_routine,
        **_shown(request, every, period),
    }
    return page(request, period, "dashboard/audit.html", "settings", context)


def _shown(request: HttpRequest, every: QuerySet[AuditEntry], period: Period) -> Context:
    """A page of the entries, and what leads on."""
    rest = _after(request, every)
    shown = list(rest[: PAGE_SIZE + 1])
    after = str(shown[PAGE_SIZE - 1].pk) if len(shown) > PAGE_SIZE else ""
    lines = audit_lines(shown[:PAGE_SIZE], period.zone)
    return {"lines": lines, "pager": Pager(after, 0, rest is every)}


def _after(request: HttpRequest, every: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """What follows the entry that the address names; everything where it names none of these."""
    after = request.GET.get("after", "")
    last = every.filter(pk=int(after)).first() if after.isdecimal() and len(after) < 19 else None
    if last is None:
        first_page(request)
        return every
    return every.filter(Q(at__lt=last.at) | Q(at=last.at, pk__lt=last.pk))


@require_GET
@needs(Right.PEOPLE)
@never_cache
@takes_only(*FILTERS, *PERIOD)
def audit_file(request: HttpRequest, form: str) -> HttpResponse:
    """A file of the entries that the address asks for; that it was taken is an entry itself."""
    try:
        period = read_period(request, default="30d", is_page=False)
        rows = _rows(request, period)
    except ValueError as error:
        return refused(str(error))
    make, content_type = _FORMS[form]
    name = f"fleetwatch-audit.{form}"
    return file(request, make(rows), name, of=period.interval, content_type=content_type)


def _rows(request: HttpRequest, period: Period) -> list[Row]:
    """Raises ValueError for an address that can't be answered as it stands."""
    kind = request.GET.get("kind", "")
    if kind and kind not in KINDS:
        raise ValueError(f"There is no `kind` {kind[:60]!r}; there are {', '.join(KINDS)}.")
    every = entries(period.interval, name=request.GET.get("who", ""), kind=kind)
    lines = list(every[: MAX_LINES + 1])
    if len(lines) > MAX_LINES:
        raise ValueError(f"More than {MAX_LINES:,} entries: ask for a shorter period.")
    return [as_row(entry) for entry in lines]


def _csv(rows: list[Row]) -> str:
    return to_csv(COLUMNS, ([_cell(value) for value in row.values()] for row in rows))


def _jsonl(rows: list[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _cell(value: object) -> str | int:
    return value if isinstance(value, str | int) else json.dumps(value)


_FORMS: dict[str, tuple[Callable[[list[Row]], str], str]] = {
    "csv": (_csv, CSV),
    "jsonl": (_jsonl, "application/jsonl; charset=utf-8"),
}
