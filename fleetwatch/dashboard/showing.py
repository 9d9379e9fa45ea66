"""How a page is shown: who may see it, which parameters it takes, over which period."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.visibility import sight
from fleetwatch.dashboard import freshness, selectors
from fleetwatch.dashboard.freshness import NEVER_LIVE, Freshness
from fleetwatch.dashboard.parameters import FILTERS, View, takes, takes_only
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.lib.intervals import Interval

Thing = TypeVar("Thing")

CSV = "text/csv; charset=utf-8"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
LIVE = {
    f"dashboard/{name}.html"
    for name in (
        *("overview", "fleet", "idle", "node", "gpu", "jobs", "job", "findings"),
        *("alerts", "incident", "agents", "agent", "status", "me", "finding", "place_finding"),
        *("costs", "waste", "capacity", "budgets", "budget", "teams"),
        *("team_statement", "reports", "own_statements"),
    )
}
LONGEST_ASKED = 500  # of what is kept of an address

Context = dict[str, Any]
Content = Callable[..., Context | HttpResponseBase]


def shows(
    template: str,
    rail: str,
    *names: str,
    default: str = "7d",
    needs_gpus: bool = False,
    is_part: bool = False,
    find: Callable[..., Any] | None = None,
) -> Callable[[Content], View]:
    """A page, or a part of one, for everybody who is logged in: what it decorates is given the
    request and its period, and gives what the template shows, or an answer of its own.

    It takes these parameters. One that `needs_gpus` leads to /welcome before there is a GPU. A page
    of one thing is given what `find` makes of its address; where that raises Http404, nothing is
    said of the period. A live one asks again while somebody looks at it (freshness.py).
    """

    def marked(content: Content) -> View:
        @require_GET
        @login_required
        @(takes_only if is_part else takes)(*names)
        @wraps(content)
        def answer(request: HttpRequest, **address: Any) -> HttpResponseBase:
            if needs_gpus and is_empty():
                return redirect("welcome")
            fresh = _freshness(request, template)
            if same := freshness.unchanged(request, fresh.version):
                return same
            subject = [find(**address)] if find else []
            period = read_period(request, default=default)
            shown = content(request, period, *subject)
            if isinstance(shown, HttpResponseBase):
                return shown
            return page(request, period, template, rail, _shared(names, fresh) | shown)

        return answer

    return marked


def part_of(name: str, **shown: str) -> Callable[[Content], Content]:
    """A part that the page of that name asks for: whoever opens it by itself is led there, as it is
    narrowed here, and to what of the page it has `shown`.
    """

    def marked(content: Content) -> Content:
        @wraps(content)
        def answer(request: HttpRequest, *facts: Any) -> Context | HttpResponseBase:
            if "HX-Request" in request.headers:
                return content(request, *facts)
            asked = "&".join(filter(None, [request.GET.urlencode(), urlencode(shown)]))
            matched = request.resolver_match
            page_of_it = reverse(name, kwargs=matched.kwargs if matched else {})
            return redirect(f"{page_of_it}?{asked}".removesuffix("?"))

        return answer

    return marked


def _shared(names: Collection[str], fresh: Freshness) -> Context:
    """Which of a page's parameters are filters, which a form of filters keeps, and how fresh it
    is.
    """
    return {
        **fresh.context(),
        "filter_names": [name for name in FILTERS if name in names],
        "kept_names": [name for name in names if name not in (*FILTERS, "after")],
    }


def is_empty() -> bool:
    """Whether there is no GPU yet, as far as the reader may know."""
    return not selectors.has_data() and sight() is None


def live(
    request: HttpRequest, template: str, made: Callable[[Freshness], HttpResponse]
) -> HttpResponse:
    """304 for a browser that shows the live page as it is; else the page as it is `made` with its
    freshness, whose context its template is given.
    """
    fresh = _freshness(request, template)
    return freshness.unchanged(request, fresh.version) or made(fresh)


def _freshness(request: HttpRequest, template: str) -> Freshness:
    """Of a live page; without a version of another one."""
    return freshness.freshness(request, timezone.now()) if template in LIVE else NEVER_LIVE


def existing(thing: Thing | None) -> Thing:
    """What an address names. Raises Http404 where there is none."""
    if thing is None:
        raise Http404
    return thing


def file(
    request: HttpRequest,
    content: str | bytes,
    name: str,
    *,
    of: Interval,
    content_type: str = CSV,
) -> HttpResponse:
    """The content as a file of that name, `of` a period; that it was taken is in the audit log."""
    answer = HttpResponse(content, content_type=content_type)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    record(
        "export.file",
        request.path,
        file=name,
        asked=request.GET.urlencode()[:LONGEST_ASKED],
        start=of.start.isoformat(),
        end=of.end.isoformat(),
        bytes=len(answer.content),
    )
    return freshness.private(answer)


def page(
    request: HttpRequest, period: Period, template: str, rail: str, context: Context
) -> HttpResponse:
    """The page; 422 where it says what is wrong with what was sent."""
    is_refused = any(context.get(name) for name in ("error", "errors", "faults", "refused"))
    shown = period.context(rail, **context)
    status = 422 if is_refused else 200
    return freshness.private(render(request, template, shown, status=status))
