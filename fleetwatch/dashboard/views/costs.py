"""The cost explorer: where the money went, by any grouping, beside the period before."""

from collections.abc import Mapping, Sequence

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from fleetwatch.accounts.selectors import organisation, zone
from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard.choices import LONGEST, chosen, first_page
from fleetwatch.dashboard.compared_period import (
    COMPARE,
    COMPARISONS,
    as_recorded,
    compared_with,
    period_before,
)
from fleetwatch.dashboard.contract_costs import contract_costs, contracts
from fleetwatch.dashboard.drawing.spending import LARGEST, partial_steps, steps_of
from fleetwatch.dashboard.opened_costs import opened_by
from fleetwatch.dashboard.pages import pager, read_place
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS, filtered, refused, takes_only
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.recorded_part import record_of
from fleetwatch.dashboard.showing import CSV, XLSX, Context, file, shows
from fleetwatch.figures.comparison import SORTS, Compared, ordered
from fleetwatch.figures.posted import summed_until
from fleetwatch.figures.ranking import COST, TIME, WASTE
from fleetwatch.figures.selectors import ledger_began
from fleetwatch.figures.totals import HEADLINE_STATES, Scope
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import TimeframeError, in_words
from fleetwatch.reports.download import RECORDED_SINCE
from fleetwatch.reports.explored import Explored, FromJob, explored, table, workbook
from fleetwatch.reports.exports.files import to_csv
from fleetwatch.reports.exports.tables import Cell
from fleetwatch.reports.months import last_begun
from fleetwatch.reports.statement import MOMENT

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
CONTRACT = {"contract": "Contract"}  # the fleet's, where it has any
# of which more is worse and less better
JUDGED_STATES = HEADLINE_STATES | {"underused"}
TOTAL = frozenset(("",))  # the key of the line that has none
MAX_LINES = 200
JOBS_ON_PAGE = 25
RANKED = (COST, TIME, WASTE)  # what jobs are sorted by
FILES = {"csv": CSV, "xlsx": XLSX}


@shows(
    *("dashboard/costs.html", "costs", "group_by", "step", COMPARE),
    *(*SUBJECTS, "sort", "after", *PERIOD),
    needs_gpus=True,
)
def cost_explorer(request: HttpRequest, period: Period) -> Context:
    scope, filters = filtered(request)
    before = period_before(request, period)
    committed = contracts(period, filters)
    groups = GROUPS if committed is None else GROUPS | CONTRACT
    looked_at = _lines(request, period, before, scope, groups=groups)
    seen = looked_at["seen"]
    return {
        **_steps(request, period, before, seen.whole.totals.capacity_ms),
        **compared_with(request),
        **looked_at,
        "groups": groups.items(),
        "group_label": GROUPS[seen.group_by],
        "opened": _opened(request, seen.group_by, seen.lines, filters, period),
        **_of_lines(seen, filters.get("state", "")),
        "filters": filters,
        "contract": contract_costs(committed, seen.whole.totals),
        **_elsewhere(period),
    }


def _lines(
    request: HttpRequest,
    period: Period,
    before: Interval | None,
    scope: Scope,
    *,
    groups: Mapping[str, str],
) -> Context:
    """The lines of the grouping that is asked for, in their order; of jobs a page; of contracts
    the whole alone is shown, read by GPU model.
    """
    grouped_by = chosen(request, "group_by", groups, default="team")
    group_by = "gpu_model" if grouped_by in CONTRACT else grouped_by
    sort = _sort(request, group_by)
    place = read_place(request.GET.get("after", "")) if group_by == "job" else None
    if place is None:
        first_page(request)
    jobs = FromJob(sort if sort in RANKED else COST, place or 0, drawn=LARGEST)
    size = JOBS_ON_PAGE if group_by == "job" else MAX_LINES
    seen = explored(period.so_far, before, group_by, scope=scope, size=size, jobs=jobs)
    return {
        "seen": seen,
        "grouped_by": grouped_by,
        "lines": ordered(seen.lines, sort),
        "sort": sort,
        "pager": pager(seen.page, is_first=place is None) if seen.page else None,
    }


def _sort(request: HttpRequest, group_by: str) -> str:
    # nodes cost the same all the time
    return chosen(request, "sort", SORTS, default="waste" if group_by == "node" else "cost")


def _elsewhere(period: Period) -> Context:
    """Until when the sum is of every node, where the same stands as files, and beside what was
    billed.
    """
    return {
        "summed_until": summed_until(period.interval, period.now),
        "files": [(form, reverse("costs_file", args=[form])) for form in FILES],
        "invoice_month": last_begun(period.now, zone()),
    }


def _steps(
    request: HttpRequest, period: Period, before: Interval | None, capacity_ms: int
) -> Context:
    """In which steps the chart can be drawn, which is asked for, and since when this period and the
    one before are recorded.
    """
    steps = steps_of(period)
    step = chosen(request, "step", steps, default=steps[0])
    record = record_of(period, capacity_ms)
    since = record["recorded_since"] or period.interval.start
    return {
        "steps": steps,
        "step": step,
        "partial_steps": partial_steps(period, step, since),
        **record,
        "before_since": as_recorded(before).since if before else None,
    }


def _opened(
    request: HttpRequest,
    group_by: str,
    lines: Sequence[Compared],
    filters: dict[str, str],
    period: Period,
) -> dict[str, str]:
    """By a line's key the address that shows what it is made of; jobs have pages of their own."""
    shown = {name: request.GET[name] for name in ("step", COMPARE) if request.GET.get(name)}
    addresses = opened_by(group_by, (line.key for line in lines), shown | filters)
    return {key: f"{address}&{period.timeframe.query}" for key, address in addresses.items()}


def _of_lines(seen: Explored, narrowed_to: str) -> Context:
    """What lines are shown with, by key."""
    return {
        "colours": _colours(seen.lines, seen.group_by),
        "owners": _owners(seen),
        **_of_states(seen.group_by, narrowed_to),
    }


def _of_states(group_by: str, narrowed_to: str) -> Context:
    """The keys of lines of which more or less cost is coloured (`judged`) and of those that can be
    wasted; None: of all.
    """
    states = frozenset(narrowed_to.split(",")) if narrowed_to else frozenset(SHOWN_STATES)
    return {
        "judged": _keys_of(JUDGED_STATES & states, group_by),
        "wasted_lines": _keys_of(HEADLINE_STATES & states, group_by),
    }


def _keys_of(states: frozenset[str], group_by: str) -> frozenset[str] | None:
    """The keys of lines with time in these states, the total's too; None: of all lines."""
    if not states:
        return frozenset()
    return states | TOTAL if group_by == "state" else None


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
@takes_only("group_by", COMPARE, *SUBJECTS, *PERIOD)
def costs_file(request: HttpRequest, form: str) -> HttpResponse:
    """Every line, exact, as CSV or Excel."""
    if form not in FILES:
        raise Http404
    try:
        period = read_period(request, is_page=False)
    except TimeframeError as error:
        return refused(str(error))
    if wrong := _unknown(request):
        return refused(wrong)
    group_by = request.GET.get("group_by") or "team"
    scope, filters = filtered(request)
    seen = explored(period.so_far, period_before(request, period), group_by, scope=scope)
    name = f"fleetwatch-costs-by-{group_by}.{form}"
    content = _csv(seen) if form == "csv" else _excel(seen, period, filters)
    return file(request, content, name, of=period.so_far, content_type=FILES[form])


def _csv(seen: Explored) -> str:
    """Every line, and on each since when there are figures, where that is within the period."""
    sheet = table(seen)
    began = ledger_began()
    is_part = began is not None and began > seen.interval.start
    since = f"{began:{MOMENT}}" if is_part else None
    return to_csv((*sheet.columns, RECORDED_SINCE), [(*row, since) for row in sheet.rows])


def _excel(seen: Explored, period: Period, filters: dict[str, str]) -> bytes:
    narrowed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in filters.items())
    before = seen.before
    facts: list[tuple[str, Cell]] = [
        ("Organisation", organisation().name),
        ("Period", in_words(period.so_far.start, period.so_far.end, period.zone)),
        ("Time zone", period.zone.key),
        ("Compared with", in_words(before.start, before.end, period.zone) if before else "nothing"),
        ("Filters", narrowed or "none: all GPUs, used or not"),
    ]
    return workbook(seen, group=GROUPS[seen.group_by], of=facts)


def _unknown(request: HttpRequest) -> str:
    """Which choice of the address there is not, in words; "" where there are all."""
    for name, choices in (("group_by", GROUPS), (COMPARE, COMPARISONS)):
        asked = request.GET.get(name)
        if asked and asked not in choices:
            there = ", ".join(choices)
            return f"There is no `{name}` {asked[:LONGEST]!r}; there are {there}."
    return ""
