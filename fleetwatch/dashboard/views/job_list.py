"""The list of jobs, by what they do now or wasted."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from fleetwatch.dashboard import job_lines, pages
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.compared_period import (
    COMPARE,
    compared_with,
    compares,
    recorded_before,
)
from fleetwatch.dashboard.decided_jobs import decided_jobs
from fleetwatch.dashboard.fault_ends import ended_by_fault_within, most_lost_usd
from fleetwatch.dashboard.job_lines import JobLine
from fleetwatch.dashboard.job_orders import LOST, NOW, SORTS, order_by, order_by_lost
from fleetwatch.dashboard.jobs_csv import to_csv
from fleetwatch.dashboard.own_tabs import own_tabs
from fleetwatch.dashboard.parameters import (
    CAUSE,
    PERIOD,
    SUBJECTS,
    filtered,
    refused,
    takes_only,
)
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, file, shows
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import (
    BY_CODE,
    FAILURES,
    title,
)
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.pricing import sum_if_all_known
from fleetwatch.figures.ranking import GPUS, Ranked
from fleetwatch.figures.selectors import Look, Scope
from fleetwatch.figures.totals import Totals
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import running_ids
from fleetwatch.jobs.selectors import (
    job_ids,
)
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import TimeframeError

NARROWED = (*SUBJECTS, CAUSE)
PAGE_SIZE = 50
MAX_ROWS = 5000  # of a file


@shows("dashboard/jobs.html", "jobs", "q", "running", *NARROWED, "sort", "after", *PERIOD, COMPARE)
def jobs(request: HttpRequest, period: Period) -> Context:
    place = pages.read_place(request.GET.get("after", ""))
    if place is None:
        first_page(request)
    _, filters = filtered(request)
    if cause := _cause(request):
        filters[CAUSE] = cause
    ranked, lines, of_cause = _ranked(request, period, PAGE_SIZE, start=place or 0)
    return {
        **_listed(lines, period.now),
        **of_cause,
        "totals": ranked.totals,
        **compared_with(request),
        "before": _before(request, period),
        "pager": pages.pager(ranked, is_first=place is None),
        **_order(request),
        "text": _text(request),
        "is_running": _is_running(request),
        "filters": filters,
        "own_tabs": own_tabs(request, filters, period.now),
        "max_rows": MAX_ROWS,
    }


def _listed(lines: Sequence[JobLine], now: datetime) -> Context:
    """The lines, and of which jobs all is decided."""
    return {
        "lines": lines,
        "decided": decided_jobs((line.group.key for line in lines), now),
        "has_well": any(line.is_well for line in lines),
    }


@require_GET
@login_required
@takes_only("q", "running", *NARROWED, "sort", *PERIOD)
def jobs_csv(request: HttpRequest) -> HttpResponse:
    """The table as CSV, in its order, at most MAX_ROWS of it."""
    try:
        period = read_period(request, is_page=False)
    except TimeframeError as error:
        return refused(str(error))
    _, lines, _ = _ranked(request, period, MAX_ROWS)
    content = to_csv(lines, period.so_far)
    return file(request, content, "fleetwatch-jobs.csv", of=period.so_far)


def _ranked(
    request: HttpRequest, period: Period, size: int, *, start: tuple[int, int] | int = 0
) -> tuple[Ranked, list[JobLine], Context]:
    """So many of the jobs that the address asks for, in its order, and as lists show them; and what
    is said of the cause that is asked for.
    """
    sort = _sort(request)
    scope, _ = filtered(request)
    is_running = _is_running(request)
    asked = _look(period.interval, scope, _text(request), is_running=is_running, sort=sort)
    asked, of_cause = _of_cause(request, period.interval, asked, scope)
    interval = period.so_far
    order = order_by_lost(of_cause["lost_usd"]) if sort == LOST else order_by(sort, interval)
    ranked = asked.ranked("job", size, sort=order, start=start)
    return ranked, job_lines.lines_of(ranked.groups, interval, _gpus(asked)), of_cause


def _of_cause(
    request: HttpRequest, interval: Interval, asked: Look, scope: Scope
) -> tuple[Look, Context]:
    """Of these jobs those that lost time to the cause that is asked for, of faults those that they
    ended too; its name, and what they lost to it: None where no cause is asked for, some of its
    jobs alone, or jobs that ended by it, whose loss nobody measures.
    """
    cause = chosen(request, CAUSE, BY_CODE)
    if not cause:
        return asked, {"cause_title": "", "by_cause_usd": None, "lost_usd": {}}
    lost = diagnosis.wasted_by_cause(cause, interval, scope=scope)
    ended = ended_by_fault_within(interval) if cause in FAILURES else set()
    ended &= set(asked.columns.by["job"].ids.tolist())  # of those that the reader sees here
    is_of_some = _text(request) or _is_running(request) or ended
    usd = None if is_of_some else sum(lost.values(), Decimal(0))
    of_cause = {"cause_title": title(cause), "by_cause_usd": usd, **_lost(ended)}
    return asked.of("job", ended | lost.keys()), of_cause


def _lost(ended: Collection[int]) -> Context:
    """What those of these ids, which a fault ended, lost at most, each and in sum: None where that
    is not known.
    """
    lost_usd = most_lost_usd(Job.objects.filter(pk__in=ended)) if ended else {}
    sum_usd = sum_if_all_known(lost_usd.values())
    return {"lists_ended": bool(ended), "lost_usd": lost_usd, "most_lost_usd": sum_usd}


def _before(request: HttpRequest, period: Period) -> Totals | None:
    """What jobs held in the period before; None where it is not recorded or asked for, and of some
    jobs alone, which are others then.
    """
    is_of_some = _text(request) or _is_running(request) or _cause(request)
    if is_of_some or not compares(request):
        return None
    earlier = recorded_before(period)
    scope, _ = filtered(request)
    held = replace(scope, is_allocated=True)
    return costs.totals(earlier, scope=held) if earlier else None


def _sort(request: HttpRequest) -> str:
    sorts = _sorts(request)
    return chosen(request, "sort", sorts, default=LOST if LOST in sorts else NOW)


def _order(request: HttpRequest) -> Context:
    return {"sort": _sort(request), "sorts": _sorts(request).items()}


def _sorts(request: HttpRequest) -> Mapping[str, str]:
    """What the list may be sorted by: that of a fault also by what the jobs that it ended lost."""
    return SORTS | {LOST: "most lost"} if _cause(request) in FAILURES else SORTS


def _cause(request: HttpRequest) -> str:
    """To which of the causes of waste they lost time; "" = to any, or none."""
    cause = request.GET.get(CAUSE, "")
    return cause if cause in BY_CODE else ""


def _text(request: HttpRequest) -> str:
    """What of a name or key is looked for; "" = nothing."""
    return request.GET.get("q", "").strip()


def _is_running(request: HttpRequest) -> bool:
    """Whether only those that run now are asked for."""
    return chosen(request, "running", ("yes",)) == "yes"


def _look(interval: Interval, scope: Scope, text: str, *, is_running: bool, sort: str) -> Look:
    """What jobs held: those with the text in name or key, and those that run now.

    By GPU where those of every job are counted: jobs are sorted by them, or some alone are looked
    at.
    """
    counts_gpus = sort == GPUS or any((scope.node, scope.gpu_model, scope.states))
    groups = ("job", "gpu") if counts_gpus else ("job",)
    held = costs.look(interval, *groups, scope=replace(scope, is_allocated=True))
    return held.of("job", job_ids(text=text)).of("job", running_ids() if is_running else None)


def _gpus(seen: Look) -> dict[int, int] | None:
    """On how many GPUs each job is, by its id; None where it was not read by GPU."""
    return seen.gpus("job") if "gpu" in seen.columns.by else None
