"""The cost explorer: where the money went, by any grouping, beside the period before."""

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard.choices import LONGEST, chosen
from fleetwatch.dashboard.drawing.spending import LARGEST
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS, filtered, refused, takes_only
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import CSV, XLSX, Context, file, shows
from fleetwatch.figures.comparison import SORTS, Compared, ordered
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import TimeframeError
from fleetwatch.reports.explored import Explored, explored, table
from fleetwatch.reports.exports.files import to_csv, to_xlsx
from fleetwatch.reports.exports.tables import Table

GROUPS = {
    "team": "Team",
    "project": "Project",
    "cost_centre": "Cost centre",
    "user": "User",
    "job": "Job",
    "node": "Node",
    "gpu_model": "GPU model",
    "state": "State",
}
# by what a line's own costs are shown; a job has a page of its own
OPENED_BY = {
    "team": "user",
    "project": "user",
    "cost_centre": "team",
    "user": "job",
    "node": "job",
    "gpu_model": "team",
    "state": "team",
}
MAX_LINES = 200
FILES: dict[str, tuple[Callable[[Table], str | bytes], str]] = {
    "csv": (lambda sheet: to_csv(sheet.columns, sheet.rows), CSV),
    "xlsx": (lambda sheet: to_xlsx([sheet]), XLSX),
}


@shows("dashboard/costs.html", "costs", "group_by", *SUBJECTS, "sort", *PERIOD, needs_gpus=True)
def cost_explorer(request: HttpRequest, period: Period) -> Context:
    group_by = chosen(request, "group_by", GROUPS, default="team")
    sort = chosen(request, "sort", SORTS, default="cost")
    scope, filters = filtered(request)
    seen = explored(period.so_far, _before(period), group_by, scope=scope, size=MAX_LINES)
    return {
        "groups": GROUPS.items(),
        "group_label": GROUPS[group_by],
        "seen": seen,
        "lines": ordered(seen.lines, sort),
        "opened": _opened(group_by, seen.lines, filters, period),
        "colours": _colours(seen.lines, group_by),
        "owners": _owners(seen),
        "sort": sort,
        "filters": filters,
        "files": [(form, reverse("costs_file", args=[form])) for form in FILES],
    }


def _before(period: Period) -> Interval:
    """As long as what is over of the period, right before it."""
    start = period.so_far.start
    return Interval(start - (period.so_far.end - start), start)


def _opened(
    group_by: str, lines: Sequence[Compared], filters: dict[str, str], period: Period
) -> dict[str, str]:
    """By a line's key the address that shows what it is made of; jobs have pages of their own."""
    if group_by not in OPENED_BY:
        return {}
    start = f"{reverse('costs')}?{period.timeframe.query}&"
    kept = filters | {"group_by": OPENED_BY[group_by]}
    keys = (line.key for line in lines if line.key)
    return {key: start + urlencode(kept | {group_by: key}) for key in keys}


def _colours(lines: Sequence[Compared], group_by: str) -> dict[str, str]:
    """The colours of lines in the chart, by key."""
    if group_by == "state":
        return {line.key: line.key for line in lines}
    groups = [line.key for line in lines if line.key]
    largest = {key: f"group-{n}" for n, key in enumerate(groups[:LARGEST], 1)}
    return dict.fromkeys(groups, "others") | largest | {"": "free"}


def _owners(seen: Explored) -> dict[str, Job]:
    """The jobs of the lines, by key."""
    keys = [line.key for line in seen.lines] if seen.group_by == "job" else []
    return attribution.jobs_by_key(keys, before=seen.interval.end)


@require_GET
@login_required
@takes_only("group_by", *SUBJECTS, *PERIOD)
def costs_file(request: HttpRequest, form: str) -> HttpResponse:
    """Every line, exact, as CSV or Excel."""
    if form not in FILES:
        raise Http404
    try:
        period = read_period(request, is_page=False)
    except TimeframeError as error:
        return refused(str(error))
    group_by = request.GET.get("group_by") or "team"
    if group_by not in GROUPS:
        there = ", ".join(GROUPS)
        return refused(f"There is no `group_by` {group_by[:LONGEST]!r}; there are {there}.")
    scope, _ = filtered(request)
    seen = explored(period.so_far, _before(period), group_by, scope=scope)
    write, content_type = FILES[form]
    name = f"fleetwatch-costs-by-{group_by}.{form}"
    content = write(table(seen))
    return file(request, content, name, of=period.so_far, content_type=content_type)
