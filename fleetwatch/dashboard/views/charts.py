"""A chart's figure as JSON or as a picture, its rows as a table or as CSV."""

import re
from functools import cache

import msgspec
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from fleetwatch.dashboard import freshness
from fleetwatch.dashboard.drawing import charts
from fleetwatch.dashboard.drawing.chart import Cell, Chart, NoPeriodError, NoSuchChartError
from fleetwatch.dashboard.drawing.picture import picture
from fleetwatch.dashboard.pages import Pager
from fleetwatch.dashboard.parameters import refusal, refused
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import file
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.lib.timeframes import TimeframeError
from fleetwatch.reports.exports.files import to_csv

THEMES = ("light", "dark")

# opened by itself it is a page, which brings its own style and nothing else
OF_PICTURE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


@require_GET
@login_required
def chart(request: HttpRequest, name: str) -> HttpResponse:
    if wrong := refusal(request, (*charts.parameters(name), "as")):
        return wrong
    form = request.GET.get("as", "json")
    version = freshness.freshness(request, timezone.now()).version if form == "json" else ""
    if same := freshness.unchanged(request, version):
        return same
    try:
        period = read_period(request, is_page=form == "table")
        chart = charts.build(name, request.GET.dict(), period)
    except NoSuchChartError as error:
        raise Http404(str(error)) from error
    except (TimeframeError, NoPeriodError) as error:
        return refused(str(error))
    return _answer(request, name, chart, period, version)


def _answer(
    request: HttpRequest, name: str, chart: Chart, period: Period, version: str
) -> HttpResponse:
    """The chart in the form that the address asks for. Raises Http404 where there is no such."""
    match request.GET.get("as", "json"):
        case "csv":
            answer = file(request, _csv(chart), f"fleetwatch-{name}.csv", of=period.interval)
            return _with_next(answer, request, chart.after)
        case "table":
            pager = Pager(chart.after, 0, is_first=not request.GET.get("after"))
            context = period.context("", chart=chart, rows=_rows(chart), pager=pager)
            return render(request, "dashboard/chart_table.html", context)
        case "svg":
            return _picture(picture(chart.figure, _own_colours(request)))
        case "json":
            return freshness.marked(_json(chart), version)
        case form:
            raise Http404(f"as={form}")


def _rows(chart: Chart) -> list[list[tuple[Cell, bool]]]:
    """Each row's cells, and whether each is dollars."""
    are_usd = [column.endswith("$") for column in chart.columns()]
    return [list(zip(row, are_usd, strict=True)) for row in chart.rows()]


def _picture(content: str) -> HttpResponse:
    return HttpResponse(content, content_type="image/svg+xml", headers=OF_PICTURE)


def _own_colours(request: HttpRequest) -> str:
    return _colours(request.COOKIES.get("theme", ""))


@cache
def _tokens() -> str:
    """The colours of the style sheet."""
    sheet = (settings.BASE_DIR / "static/css/app.css").read_text()
    return "".join(re.findall(r"--[a-z0-9-]+: light-dark\([^)]*\);", sheet))


def _colours(theme: str) -> str:
    """As of the theme that somebody chose; of another one as the browser has it."""
    return f"color-scheme:{theme if theme in THEMES else 'light dark'};{_tokens()}"


def _with_next(answer: HttpResponse, request: HttpRequest, after: str) -> HttpResponse:
    """The answer with the address of the next page, where there is one (RFC 8288)."""
    if after:
        params = request.GET.copy()
        params["after"] = after
        answer["Link"] = f'<{request.path}?{params.urlencode()}>; rel="next"'
    return answer


def _csv(chart: Chart) -> str:
    return to_csv([defused(column) for column in chart.columns()], chart.rows())


def _json(chart: Chart) -> HttpResponse:
    content = {"title": chart.title, **chart.figure}
    return HttpResponse(msgspec.json.encode(content), content_type="application/json")
