"""A chart's figure as JSON, its rows as a table or as CSV."""

import msgspec
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from fleetwatch.dashboard.drawing import charts, grid
from fleetwatch.dashboard.parameters import refusal, refused
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import file
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.lib.timeframes import TimeframeError
from fleetwatch.reports.exports.files import to_csv


@require_GET
@login_required
def chart(request: HttpRequest, name: str) -> HttpResponse:
    if wrong := refusal(request, (*charts.parameters(name), "as")):
        return wrong
    form = request.GET.get("as", "json")
    try:
        period = read_period(request, is_page=form == "table")
        chart = charts.build(name, request.GET.dict(), period)
    except charts.NoSuchChartError as error:
        raise Http404(str(error)) from error
    except (TimeframeError, charts.NoPeriodError) as error:
        return refused(str(error))
    match form:
        case "csv":
            return file(request, _csv(chart), f"fleetwatch-{name}.csv", of=period.interval)
        case "table":
            context = period.context("", chart=chart, rows=chart.rows())
            return render(request, "dashboard/chart_table.html", context)
        case "json":
            return _json(chart)
    raise Http404(f"as={form}")


def _csv(chart: charts.Chart) -> str:
    return to_csv([defused(column) for column in chart.columns], chart.rows())


def _json(chart: charts.Chart) -> HttpResponse:
    content = {"title": chart.title, **chart.figure}
    encoded = msgspec.json.encode(content, enc_hook=grid.encoded)
    return HttpResponse(encoded, content_type="application/json")
