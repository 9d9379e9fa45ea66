"""The waste report: who wasted how much in a period."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.sites import energy
from fleetwatch.costs.spreading import EVEN, OWN_LINE, PROPORTIONAL, with_free
from fleetwatch.dashboard.adjusted import adjusted
from fleetwatch.dashboard.choices import LONGEST, chosen, first_page
from fleetwatch.dashboard.compared_period import (
    COMPARE,
    NONE,
    compared_with,
    compares,
    recorded_before,
)
from fleetwatch.dashboard.decided_jobs import decided_jobs
from fleetwatch.dashboard.pages import Pager, pager, read_place
from fleetwatch.dashboard.parameters import (
    CAUSE,
    PERIOD,
    SUBJECTS,
    filtered,
    in_states,
    refused,
    takes_only,
)
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.recorded_part import record_of
from fleetwatch.dashboard.showing import Context, file, shows
from fleetwatch.dashboard.waste_causes import cause_lines
from fleetwatch.diagnosis import cause_look
from fleetwatch.diagnosis.cause_look import WASTING, CauseLook
from fleetwatch.diagnosis.cause_totals import together as together_saved
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, title
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.diagnosis.findings.inbox import Recoverable
from fleetwatch.diagnosis.findings.machine_findings import progress
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.ranking import Rest
from fleetwatch.figures.selectors import Group, Look
from fleetwatch.figures.totals import Scope, nothing, together
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import TimeframeError
from fleetwatch.reports.selectors import by_cause, waste_rows
from fleetwatch.reports.waste import WasteReport, to_csv

GROUPS = {
    "team": "Team",
    "project": "Project",
    "cost_centre": "Cost centre",
    "user": "User",
    "job": "Job",
    "node": "Node",
    "gpu_model": "GPU model",
    "cause": "Cause",
}
# what to do about a cause first
FIRST_STEPS = {cause.code: cause.fixes[0].text for cause in CATALOGUE if cause.fixes}
PARAMETERS = ("group_by", *SUBJECTS, CAUSE, "free", "after", *PERIOD, COMPARE)
PAGED = ("job", "node")  # of which a large fleet has thousands
ON_PAGE = 50
MAX_LINES = 200
IDLE_OR_STALLED = ("idle", "stalled")  # what is drawn for nothing
PAYERS = ("team", "project", "cost_centre", "user")  # over whom free capacity can be spread
NO_STATE = "A cause is of several states: `state` narrows no report by cause."
NO_WASTE = (
    "“{}” is no cause that time is wasted by, so `cause` can't narrow waste to it: the savings"
    " inbox has what is known of it."
)
SPREAD = {OWN_LINE: "Free apart", PROPORTIONAL: "Free spread by cost", EVEN: "Free evenly"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the report is of: all of the scope, or what one `cause` took of it ("" = all)."""

    group_by: str
    scope: Scope
    cause: str

    @property
    def has_findings(self) -> bool:
        """Whether what is known of findings is of its time: they are of several states."""
        return not (self.scope.states or self.scope.shown)

    def look(self, interval: Interval, *groups: str) -> Look | CauseLook:
        """By these groups; causes are no group of the ledger."""
        by = {*groups} - {"cause"}
        if self.cause:
            return cause_look.look(self.cause, interval, *by, scope=self.scope)
        return costs.look(interval, *by, scope=self.scope)


@shows("dashboard/waste.html", "waste", *PARAMETERS, needs_gpus=True)
def waste(request: HttpRequest, period: Period) -> Context:
    asked, filters = _asked(request)
    group_by = asked.group_by
    seen = asked.look(period.interval, group_by)
    lines, rest, ways_on = _lines(request, seen, asked, period.interval)
    listed = lines[:MAX_LINES]
    return {
        "groups": GROUPS.items(),
        "group_by": group_by,
        "group_label": GROUPS[group_by],
        "rest": rest,
        "pager": ways_on,
        **_of_lines(group_by, listed, seen, period),
        **_recoverable(asked, listed, period),
        "filters": filters,
        **_of_cause(asked.cause),
        **_columns(asked, filters),
        **_links(group_by, filters, period),
        **_compared(request, seen, asked, period),
        **_totals(seen, asked, period, is_whole=not filters),
        **_free(request, group_by, lines, is_of_all=not (asked.cause or "state" in filters)),
    }


def _columns(asked: Asked, filters: Mapping[str, str]) -> Context:
    """Which columns say something: of one state all cost is waste, and the bar one colour."""
    return {
        "has_share": not asked.cause and "state" not in filters,
        "has_states": "," in filters.get("state", ","),
    }


def _asked(request: HttpRequest) -> tuple[Asked, dict[str, str]]:
    """What the address asks for, and by which filters; by cause, and of one, no state narrows."""
    group_by = chosen(request, "group_by", GROUPS, default="team")
    cause = _cause(request)
    scope, filters = filtered(request)
    if (cause or group_by == "cause") and filters.pop("state", ""):
        messages.error(request, f"{NO_STATE} What you see is not narrowed by it.")
        scope = in_states(scope, ())
    return Asked(group_by, scope, cause), filters | ({CAUSE: cause} if cause else {})


def _cause(request: HttpRequest) -> str:
    """The cause whose waste alone is asked for; "" = all of it."""
    cause = chosen(request, CAUSE, BY_CODE)
    if cause and cause not in WASTING:
        messages.error(request, f"{NO_WASTE.format(title(cause))} What you see is not narrowed.")
        return ""
    return cause


def _of_lines(
    group_by: str, lines: Sequence[Group], seen: Look | CauseLook, period: Period
) -> Context:
    """The lines, and what they say beside figures: jobs whose they are, causes what to do first."""
    if group_by == "job":
        return {"lines": lines, "owners": _owners(lines, period.interval)}
    if group_by != "cause":
        return {"lines": lines}
    return {
        "lines": lines,
        "cause_lines": cause_lines(lines, seen.totals()),
        "first_steps": FIRST_STEPS,
        "progress": progress(period.interval, now=period.now),
    }


def _of_cause(code: str) -> Context:
    """The cause that is asked for ("" = none), and which of its time could be saved."""
    saved_words = BY_CODE[code].saved_words if code else ""
    return {"cause_title": title(code), "recoverable_rule": saved_words}


def _recoverable(asked: Asked, lines: Sequence[Group], period: Period) -> Context:
    """What findings of each line could save, those of the lines that the page leaves off, and all;
    what of their waste people agreed is none; and what findings of machines could save beside: none
    is told where states are asked for, for a finding's time is of several.
    """
    if not asked.has_findings:
        return {"recoverable": {}, "decided": {}, "agreed": {}}
    if asked.group_by == "cause":
        agreed = _agreed(asked, period.interval, period.now)
        agreed_usd = sum(agreed.values(), Decimal(0))
        return {"recoverable": {}, "decided": {}, "agreed": agreed, "agreed_usd": agreed_usd}
    of_jobs = inbox.recoverable_by(
        asked.group_by,
        period.interval,
        keys={line.key for line in lines},
        now=period.now,
        scope=asked.scope,
        cause=asked.cause or None,
    )
    is_of_jobs = asked.group_by == "job"
    return {
        **_saved(of_jobs, asked, period),
        "agreed": of_jobs.agreed_by_key,
        "agreed_usd": of_jobs.agreed_usd,
        "agreed_by_rest": of_jobs.agreed_of_others_usd,
        "decided": _decided(lines, of_jobs.by_key, period.now) if is_of_jobs else {},
    }


def _saved(of_jobs: Recoverable, asked: Asked, period: Period) -> Context:
    """What could be saved by findings of jobs, and by those of machines."""
    of_places = inbox.recoverable_of_places(
        period.interval, now=period.now, scope=asked.scope, cause=asked.cause or None
    )
    return {
        "recoverable": of_jobs.by_key,
        "recoverable_in_all": of_jobs.in_all,
        "recoverable_by_rest": of_jobs.of_others,
        "recoverable_of_places": of_places,
        "recoverable_with_places": together_saved([of_jobs.in_all, of_places]),
        "is_recoverable_known": True,
    }


def _agreed(asked: Asked, interval: Interval, now: datetime) -> dict[str, Decimal]:
    """By key of the lines what of their waste people agreed is none."""
    cause = asked.cause or None
    by = (asked.group_by,)
    return inbox.agreed_by(by, interval, now=now, scope=asked.scope, cause=cause)[asked.group_by]


def _decided(lines: Sequence[Group], by_key: Collection[str], now: datetime) -> dict[str, str]:
    """Of jobs of which nothing is left to be saved what was decided."""
    return decided_jobs((line.key for line in lines if line.key not in by_key), now)


def _owners(lines: Sequence[Group], interval: Interval) -> dict[str, Job]:
    """The jobs of the lines, by key."""
    return attribution.jobs_by_key((line.key for line in lines), before=interval.end)


def _links(group_by: str, filters: dict[str, str], period: Period) -> Context:
    """The filters as links keep them, and where the CSV is."""
    others = {name: value for name, value in filters.items() if name != group_by}
    csv = f"{reverse('waste_csv')}?{period.timeframe.query}"
    return {
        "kept": _more(others),
        "kept_all": _more(filters),
        "csv_url": csv + _more({"group_by": group_by} | filters),
    }


def _totals(seen: Look | CauseLook, asked: Asked, period: Period, *, is_whole: bool) -> Context:
    """The whole with since when it is recorded, what was learned of closed months since, and what
    was drawn for nothing: nobody knows that of a cause.
    """
    totals = seen.totals()
    return {
        "totals": totals,
        **record_of(period, totals.capacity_ms),
        "adjusted": adjusted(period.interval, totals.cost_usd) if is_whole else None,
        # by itself: sums of days have holders or nodes, and both only node by node
        **({} if asked.cause else _energy(asked.scope, period)),
    }


def _energy(scope: Scope, period: Period) -> Context:
    """What idle and stalled GPUs drew, those of them that the report is narrowed to, and in words
    which; nothing where it is of neither.
    """
    asked = {*(scope.states or ()), *(scope.shown or ())} or {*IDLE_OR_STALLED}
    states = tuple(state for state in IDLE_OR_STALLED if state in asked)
    if not states:
        return {}
    drawn = energy(period.interval, scope=replace(scope, states=states, shown=None))
    return {"energy": drawn, "energy_of": f"drawn by {' and '.join(states)} GPUs"}


def _compared(
    request: HttpRequest, seen: Look | CauseLook, asked: Asked, period: Period
) -> Context:
    """The period before, and how the chart is told that it is not asked for."""
    return {
        **compared_with(request),
        "compared": "" if compares(request) else f"&{COMPARE}={NONE}",
        **_before(request, seen, asked, period),
    }


def _before(request: HttpRequest, seen: Look | CauseLook, asked: Asked, period: Period) -> Context:
    """What the period before wasted, None where it is not recorded or asked for; and by how much
    this one wasted more, as a share of that.
    """
    earlier = recorded_before(period) if compares(request) else None
    if earlier is None:
        return {"before": None}
    before = asked.look(earlier).totals()
    usd = before.wasted_usd
    ratio = float(seen.totals().wasted_usd / usd - 1) if usd else None
    return {"before": before, "before_ratio": ratio}


def _free(
    request: HttpRequest, group_by: str, lines: Sequence[Group], *, is_of_all: bool
) -> Context:
    """Where free capacity stands: spread over the lines, where they are payers; an address that
    would spread it over others is told so. Of a cause or one state there is none.
    """
    context: Context = {"payers": PAYERS, "free": OWN_LINE}
    if not is_of_all:
        return context
    if group_by not in PAYERS:
        if request.GET.get("free", OWN_LINE) not in ("", OWN_LINE):
            payers = ", ".join(PAYERS)
            messages.error(request, f"`free` is for lines by {payers}: by {group_by} it is apart.")
        return context
    way = chosen(request, "free", SPREAD, default=OWN_LINE)
    context |= {"free": way, "spread": SPREAD.items()}
    return context if way == OWN_LINE else context | _with_free(lines, way)


def _with_free(lines: Sequence[Group], way: str) -> Context:
    """Each line's dollars with its part of free capacity, those of lines left off, and all."""
    dollars = with_free(lines, way)
    return {
        "with_free": dollars,
        "rest_with_free": sum((dollars[line.key] for line in lines[MAX_LINES:]), Decimal(0)),
        "all_with_free": sum(dollars.values(), Decimal(0)),
    }


def _lines(
    request: HttpRequest, seen: Look | CauseLook, asked: Asked, interval: Interval
) -> tuple[Sequence[Group], Rest, Pager | None]:
    """All lines, of jobs and of nodes a page; those that the page leaves off; and the way on."""
    group_by = asked.group_by
    if group_by == "cause":
        return _causes(seen, asked, interval), Rest(0, nothing()), None
    if group_by in PAGED and isinstance(seen, Look):
        return _page(request, seen, group_by)
    lines = seen.by(group_by)
    left = lines[MAX_LINES:]
    return lines, Rest(len(left), together(line.totals for line in left)), None


def _causes(seen: Look | CauseLook, asked: Asked, interval: Interval) -> Sequence[Group]:
    """All of them, or the one that is asked for."""
    if asked.cause:
        return [Group(asked.cause, title(asked.cause), seen.totals())]
    return by_cause(interval, asked.scope, seen.totals())


def _page(request: HttpRequest, seen: Look, group_by: str) -> tuple[Sequence[Group], Rest, Pager]:
    place = read_place(request.GET.get("after", ""))
    if place is None:
        first_page(request)
    page = seen.ranked(group_by, ON_PAGE, start=place or 0)
    others = (page.before, page.after)
    count = sum(each.groups for each in others)
    rest = Rest(count, together(each.totals for each in others))
    return page.groups, rest, pager(page, is_first=place is None)


def _more(filters: dict[str, str]) -> str:
    """The filters as further parameters of a link."""
    return f"&{urlencode(filters)}" if filters else ""


@require_GET
@login_required
@takes_only("group_by", *SUBJECTS, CAUSE, *PERIOD)
def waste_csv(request: HttpRequest) -> HttpResponse:
    """The report as CSV: every line, exact."""
    try:
        period = read_period(request, is_page=False)
    except TimeframeError as error:
        return refused(str(error))
    group_by = request.GET.get("group_by") or "team"
    if group_by not in GROUPS:
        there = ", ".join(GROUPS)
        return refused(f"There is no `group_by` {group_by[:LONGEST]!r}; there are {there}.")
    scope, filters = filtered(request)
    asked = Asked(group_by, scope, request.GET.get(CAUSE, ""))
    if why := _refusal(asked, filters):
        return refused(why)
    report = _report(period, asked)
    name = f"fleetwatch-waste-by-{group_by}.csv"
    return file(request, to_csv(report), name, of=period.so_far)


def _refusal(asked: Asked, filters: Collection[str]) -> str:
    """Why there is no such report; "" where there is."""
    if asked.cause and asked.cause not in WASTING:
        return NO_WASTE.format(title(asked.cause)[:LONGEST])
    is_of_causes = asked.cause or asked.group_by == "cause"
    return NO_STATE if is_of_causes and "state" in filters else ""


def _report(period: Period, asked: Asked) -> WasteReport:
    """With what is agreed of its lines, where that is of its time."""
    report = _wasted(period.so_far, asked)
    if not asked.has_findings:
        return report
    return replace(report, agreed_usd=_agreed(asked, report.interval, period.now))


def _wasted(interval: Interval, asked: Asked) -> WasteReport:
    if not asked.cause:
        return waste_rows(interval, asked.group_by, scope=asked.scope)
    seen = asked.look(interval, asked.group_by)
    is_one = asked.group_by == "cause"
    lines = _causes(seen, asked, interval) if is_one else seen.by(asked.group_by)
    return WasteReport(interval, asked.group_by, tuple(lines), seen.totals())
