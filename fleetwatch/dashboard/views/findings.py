"""The savings inbox, one finding with its evidence, what people decide, and the explanation of each
cause.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import User
from fleetwatch.accounts.names.holders import holders_of
from fleetwatch.accounts.people import teams_led
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.incidents import machine_incidents
from fleetwatch.dashboard import finding_rows, inbox_sums, pages, pattern_rows, policy_pages
from fleetwatch.dashboard import machine_pages as place_pages
from fleetwatch.dashboard.agreed_time import AgreedTime, agreed_time
from fleetwatch.dashboard.agreements import Agreement, agreements, behind_what
from fleetwatch.dashboard.asked_findings import (
    STATUSES,
    asked_findings,
    asked_status,
    of_tab,
)
from fleetwatch.dashboard.broken_marks import CANNOT_WORK
from fleetwatch.dashboard.catalogue_rows import a_month, catalogue_rows, most_wasted_first
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.drawing import finding_charts, idle_chart, references
from fleetwatch.dashboard.forms.asked import local_path
from fleetwatch.dashboard.freshness import NEVER_LIVE, Freshness
from fleetwatch.dashboard.job_requests import time_limit_ms
from fleetwatch.dashboard.own_tabs import own_tabs
from fleetwatch.dashboard.parameters import CAUSE, OF_FINDINGS, PERIOD, SUBJECTS, takes
from fleetwatch.dashboard.pattern_rows import GROUPINGS, OFFERED, PAGE_SIZE, PATTERN
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.priced_steps import saving_step, with_savings
from fleetwatch.dashboard.problems import of_incidents
from fleetwatch.dashboard.showing import Context, existing, live, page, part_of, shows
from fleetwatch.dashboard.slowed_gpus import IS_SLOWED
from fleetwatch.dashboard.wasting_now import last_hour
from fleetwatch.dashboard.words import is_agreed
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.cause_totals import together, total
from fleetwatch.diagnosis.causes import BY_CODE, FAILURES, OF_CAPACITY, SLOWED, title
from fleetwatch.diagnosis.findings import (
    clock_losses,
    deciding,
    fixes,
    gpu_windows,
    inbox,
    machine_findings,
    rules_in_words,
)
from fleetwatch.diagnosis.findings.advice import Advice
from fleetwatch.diagnosis.findings.alternatives import in_words
from fleetwatch.diagnosis.findings.deciding import Decision
from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.diagnosis.findings.excerpts import excerpt
from fleetwatch.diagnosis.findings.inbox import Explained, Inbox
from fleetwatch.diagnosis.findings.patterns import FRESH_MS, NOW
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT, Line
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.diagnosis.findings.recurrence import projection
from fleetwatch.diagnosis.findings.seen_on import with_last_seen
from fleetwatch.diagnosis.judgement import demand
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope, Totals
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import RUNNING, with_outcomes
from fleetwatch.ledger.broken_gpus import broken_gpus
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import one_view
from fleetwatch.telemetry import selectors as telemetry

MAX_PLACES = 50
MAX_CHOICES = 200
CAUSES_BY = ("wasted", "cause")  # the most wasted first, or in the order of evaluation
SNOOZES = {"1": "1 day", "7": "1 week", "30": "30 days"}
DEMAND_H = 24
# by the cause of a node's finding the condition whose incidents tell the same
RULES = dict.fromkeys(FAILURES, CANNOT_WORK) | {SLOWED: IS_SLOWED}
MAX_DEMANDING = 64  # GPUs of a job, asked for what they need
PARAMETERS = (
    "status",
    *SUBJECTS,
    *OF_FINDINGS,
    "group_by",
    "when",
    "sort",
    "view",
    "after",
    *PERIOD,
)
COMPACT = "compact"  # a line for each, without what to do
_DONE = {
    "accept": "Accepted: somebody will change it.",
    "dismiss": "Agreed as not waste; find it again under that name.",
    "snooze": "Snoozed; it comes back by itself.",
    "assign": "Assigned.",
    "fixed": "Marked as fixed: the next runs will show the effect.",
    "reopen": "Open again.",
    "confirm": "Thank you: the diagnosis was right.",
    "reject": "Thank you: the diagnosis was wrong, and why is written down.",
}


@shows(
    "dashboard/findings.html",
    "findings",
    *PARAMETERS,
    needs_gpus=True,
)
def findings(request: HttpRequest, period: Period) -> Context | HttpResponse:
    if own := _opens_on(request, period.now):
        return redirect(own)
    status = asked_status(request)
    group_by = chosen(request, "group_by", GROUPINGS, default=PATTERN)
    every, filters = asked_findings(request, period)
    sums = inbox_sums.savings(every, filters, period)
    return {
        "folds_places": _is_engineer(request),
        "status": status,
        "group_by": group_by,
        "view": chosen(request, "view", (COMPACT,)),
        "filters": filters,
        "cause_title": title(filters.get(CAUSE, "")),
        "own_tabs": own_tabs(request, filters, period.now),
        "statuses": STATUSES.items(),
        "page_size": PAGE_SIZE,
        "offered": OFFERED[status],
        **_lines(request, period, every, status, group_by),
        **sums,
        "has_agreed_sum": is_agreed(status) and sums["is_recorded"],
        **inbox_sums.fixed(period, filters),
    }


def _opens_on(request: HttpRequest, now: datetime) -> str:
    """For an engineer who asks for nothing but a period the address of the own jobs' findings, for
    a lead that of the team's; "" for others, and where the own jobs run under no name or several,
    or a lead is in no team or several.
    """
    if not request.GET.keys() <= set(PERIOD):
        return ""
    user = cast("User", request.user)
    if _is_engineer(request):
        whose = {("user", identity.name) for identity in holders_of(user)}
    else:
        whose = {("team", team.slug) for team in teams_led(user, now)}
    if len(whose) != 1:
        return ""
    asked = request.GET.copy()
    asked.update(dict(whose))
    return f"{request.path}?{asked.urlencode()}"


def _is_engineer(request: HttpRequest) -> bool:
    return role_of(cast("User", request.user)) == User.Role.ENGINEER


def _lines(
    request: HttpRequest, period: Period, every: Inbox, status: str, group_by: str
) -> Context:
    """Of those that stand so a page of jobs', and all of machines and of the queue: of what wastes
    now those that go on, of what is told by jobs' runs none.
    """
    shown = of_tab(every, status)
    of_jobs = (
        pattern_rows.lines(request, shown, period, _elsewhere(every, period, status))
        if group_by == PATTERN
        else _each(request, shown, period)
    )
    if of_jobs["pager"].is_first:
        first_page(request)
    places = _places(shown, of_jobs.get("when", ""), period.now)
    return {
        **of_jobs,
        "people": deciding.assignable(cast("User", request.user), period.now)[:MAX_CHOICES],
        "places": place_pages.rows(places[:MAX_PLACES], period.interval),
        "places_left": max(len(places) - MAX_PLACES, 0),
        "places_count": len(places),
        "of_jobs_count": len(shown.of_jobs),
        "has_examples": shown.has_example_rates,
    }


def _places(shown: Inbox, when: str, now: datetime) -> Sequence[Line]:
    """Those of machines and of the queue that belong beside patterns of that kind."""
    if when not in (NOW, ""):
        return ()
    if not when:
        return shown.of_places
    return place_pages.going_on(shown.of_places, since_ms=to_ms(now) - FRESH_MS)


def _elsewhere(every: Inbox, period: Period, status: str) -> set[int]:
    """Of accepted ones those whose month is told where their pattern is open."""
    return pattern_rows.open_too(every.of_jobs, period) if status == "accepted" else set()


def _each(request: HttpRequest, shown: Inbox, period: Period) -> Context:
    """A page of findings one by one."""
    after = request.GET.get("after", "")
    wanted, pager = pages.page_of(shown.of_jobs, after=after, size=PAGE_SIZE)
    lines = selectors.with_jobs(shown.of_jobs[wanted], before=period.interval.end)
    context = finding_rows.context(lines, request.user, period.now)
    exempt = {line.finding.pk for line in lines if line.status == EXEMPT}
    return {**context, "decidable": context["decidable"] - exempt, "pager": pager}


def _existing(pk: int) -> Finding:
    """Raises Http404."""
    return existing(inbox.finding(pk))


@require_GET
@login_required
@never_cache
@takes("status", *SUBJECTS, *OF_FINDINGS, *PERIOD)
def finding(request: HttpRequest, pk: int) -> HttpResponse:
    shown = _existing(pk)
    return live(request, _template(shown), lambda fresh: _finding_page(request, shown, fresh=fresh))


@shows(
    "dashboard/_around.html",
    "findings",
    *("status", *SUBJECTS, *OF_FINDINGS, *PERIOD),
    is_part=True,
    find=_existing,
)
@part_of("finding")
def finding_around(request: HttpRequest, _: Period, finding: Finding) -> Context:
    """What leads from it to others; its page fetches it after itself, as it takes all of the
    inbox.
    """
    return pattern_rows.around(request, finding)


@require_POST
@login_required
@never_cache
def decide(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """One decision, then back to where it was taken."""
    if action not in deciding.KINDS:
        raise Http404(action)
    user = cast("User", request.user)
    finding = _existing(pk)
    now = read_period(request).now
    try:
        deciding.decide(finding.pk, _decision(request.POST, action, now), by=user, now=now)
    except RefusedFieldError as error:
        return _finding_page(request, finding, action=action, error=str(error))
    except Finding.DoesNotExist:
        raise Http404(pk) from None  # its hours were judged anew meanwhile
    messages.success(request, _DONE[action])
    return redirect(
        local_path(request, request.POST.get("back", "")) or reverse("finding", args=[finding.pk])
    )


def _decision(sent: Mapping[str, str], action: str, now: datetime) -> Decision:
    """What the form says. Raises RefusedFieldError."""
    days = sent.get("days", "")
    until = now + timedelta(days=int(days)) if days in SNOOZES else None
    whom = deciding.assignee(sent.get("assignee", "")) if action == "assign" else None
    return Decision(action, sent.get("note", ""), until, whom)


def _template(finding: Finding) -> str:
    return f"dashboard/{'finding' if finding.job_id is not None else 'place_finding'}.html"


def _finding_page(
    request: HttpRequest,
    finding: Finding,
    *,
    action: str = "",
    error: str = "",
    fresh: Freshness = NEVER_LIVE,
) -> HttpResponse:
    is_of_job = finding.job_id is not None
    period = read_period(request, whole=inbox.whole(finding))
    seen, in_all = _read(finding, period)
    context = (
        _of_job(finding, seen, period, cast("User", request.user))
        if is_of_job
        else _of_place(finding, seen, period)
    ) | {
        **fresh.context(),
        "finding": finding,
        **_explained(finding, seen, in_all, period.now),
        "finding_id": str(finding.pk),
        "precision": selectors.precision().get(finding.cause),
        **_rights(finding, cast("User", request.user), period.now),
        "snoozes": SNOOZES.items(),
        "action": action,
        "error": error,
        "sent": request.POST,
    }
    return page(request, period, _template(finding), "findings", context)


def _read(finding: Finding, period: Period) -> tuple[Explained, Line | None]:
    """What it took in the period and, where that is not all of it, in all: never less."""
    with one_view():
        seen = inbox.explained(finding, period.interval, now=period.now)
        return seen, inbox.in_all(finding, period.interval, now=period.now)


def _explained(finding: Finding, seen: Explained, in_all: Line | None, now: datetime) -> Context:
    """What it took in the period and, where that is not all of it, in all; and what to do."""
    return {
        "line": seen.line,
        "total": in_all,
        "ahead": projection(finding.job_id, finding.cause, now=now),
        "advice": seen.advice,
        "exemption": seen.exemption,
    }


def _rights(finding: Finding, user: User, now: datetime) -> Context:
    """Whether the user may decide about the finding, and whom it may be given to."""
    return {
        "may_decide": bool(deciding.decidable(user, [finding], now=now)),
        "people": deciding.assignable(user, now, finding)[:MAX_CHOICES],
    }


def _of_place(finding: Finding, seen: Explained, period: Period) -> Context:
    """What the page of a node's or a cluster's finding shows of it alone; of GPUs that can't work,
    or are slowed, also their incidents, which tell the same to now.
    """
    context = place_pages.context(finding, seen, period) | {"history": selectors.history(finding)}
    rule = RULES.get(finding.cause)
    if rule is None:
        return context
    uuids = [line.gpu.uuid for line in context["affected"]]
    which = Q(subject__in=uuids, rule__condition=rule)
    return context | {"problems": of_incidents(which, period.now)}


def _of_job(finding: Finding, seen: Explained, period: Period, reader: User) -> Context:
    """What the page of a job's finding shows of it alone."""
    [job] = with_outcomes([finding.its_job])
    interval = period.interval
    agreed = _agreed(job, seen, reader, period)
    return {
        **agreed,
        **_now(job, seen.advice, period, is_agreed=bool(agreed["behind"])),
        "confidence": CONFIDENCES[seen.line.caused.confidence],
        **_how_it_stands(job),
        "steps": with_savings(seen.advice.numbered, seen.line.by_step),
        "saving_step": saving_step(seen.advice.numbered),
        "evidence": seen.evidence,
        **_measured(finding, seen.evidence),
        "alternatives": in_words(seen.line.alternatives, job.kind),
        "demand": _demand(finding, interval) if BY_CODE[finding.cause].shows_demand else None,
        **_after_fix(finding, seen.line.status),
    }


def _how_it_stands(job: Job) -> Context:
    is_over = job.end_ms is not None
    return {"is_running": not is_over and job.state == RUNNING, "is_over": is_over}


def _after_fix(finding: Finding, status: str) -> Context:
    """What its fix brought, and whether the cause came back after it, in which runs."""
    fixed = fixes.of_finding(finding)
    if fixed is None or fixed.fix.outcome != Outcome.REGRESSED:
        return {"fixed": fixed, "is_back": False}
    runs, since_ms = fixes.open_runs_since(finding, fixed.fix.at)
    job = finding.its_job
    which = {"cause": finding.cause, "user": job.user, "job_name": job.name, "from": since_ms}
    return {
        "fixed": fixed,
        "is_back": status == Finding.Status.FIXED,
        "back": fixes.came_back(job, [finding.cause]).get(finding.cause),
        "back_runs": runs,
        "back_since_ms": since_ms,
        "back_query": urlencode({"group_by": "finding", **which, "to": "now"}),
    }


def _agreed(job: Job, seen: Explained, reader: User, period: Period) -> Context:
    """What fires of the job, its other findings, what people decided and agreed on, and what comes
    behind that.
    """
    now = period.now
    others = _others(seen.line.finding, period.interval)
    problems = of_incidents(machine_incidents.of_job(job.key, ()), now)
    history = selectors.history(seen.line.finding)
    agreed = agreements(job, [seen.line], history, reader=reader, now=now)
    return {
        "problems": problems,
        "history": history,
        "agreements": agreed,
        "behind": behind_what(agreed, seen),
        "others": others,
        "no_waste": _no_waste(agreed, seen.line, period.interval, is_alone=not others),
    }


def _no_waste(
    agreed: Sequence[Agreement], line: Line, interval: Interval, *, is_alone: bool
) -> AgreedTime | None:
    """Of what the finding took, where people agreed that it is no waste, as a share of all that its
    job held; where the job has no other finding, as the job's page says it of the job.
    """
    if line.status not in inbox.AGREED:
        return None
    whole = costs.totals(interval, scope=Scope(job=line.job.key))
    of = whole if is_alone else line.caused.totals
    return agreed_time(agreed, states=of.states, tiers=of.waste_ms, whole_ms=whole.capacity_ms)


def _now(job: Job, advice: Advice, period: Period, *, is_agreed: bool) -> Context:
    """What the job costs and wastes by now, and what of it stops when it is ended, where that is to
    be done.
    """
    lately = last_hour(job, period.minute)
    is_to_be_ended = bool(advice.command) and advice.cause.is_ended and not is_agreed
    stops_usd = lately.wasted_usd if lately and is_to_be_ended else None
    return {"last_hour": lately, "stops_usd": stops_usd, "limit_at_ms": _limit_at_ms(job)}


def _limit_at_ms(job: Job) -> int | None:
    """When its scheduler ends it at the latest; None where that is not known."""
    limit_ms = time_limit_ms(job.labels)
    return None if limit_ms is None or job.start_ms is None else job.start_ms + limit_ms


def _measured(finding: Finding, seen: Evidence | None) -> Context:
    """Of an idle GPU its contrast to one that works; of another its window and one minute of it."""
    if seen is None:
        return {}
    if contrast := idle_chart.contrast(finding, seen):
        flat = finding_charts.flat_signs(BY_CODE[finding.cause], seen)
        alone = "" if contrast.beside else references.no_reference(finding.its_job, seen)
        return {"contrast": contrast, "flat_signs": flat, "no_reference": alone}
    beside = references.reference(finding, seen)
    return {
        "drawn": _drawn(finding, seen),
        "both": references.side_by_side(finding, seen),
        "reference": beside,
        "no_reference": "" if beside else references.no_reference(finding.its_job, seen),
        "excerpt": excerpt(finding.cause, seen),
        "shaded": _shaded(finding, seen),
    }


def _shaded(finding: Finding, seen: Evidence) -> tuple[int, bool] | None:
    """Of a rhythm how many pauses the chart shades that began in it, and whether one is shaded
    that had begun before; None of other causes.
    """
    if not BY_CODE[finding.cause].has_rhythm:
        return None
    several = gpu_windows.long_pauses(seen)
    count = gpu_windows.begun(several, seen)
    return count, count < len(several)


def _drawn(finding: Finding, seen: Evidence) -> Span | None:
    """What the chart shows; None where that is the window that was judged."""
    drawn = finding_charts.drawn(finding, seen)
    return drawn if drawn != (seen.start_ms, seen.end_ms) else None


def _others(finding: Finding, interval: Interval) -> list[tuple[Line, Cause]]:
    """The job's other findings in the period."""
    of_job = selectors.findings(
        interval,
        now=finding.decided_at or interval.end,
        scope=Scope(job=finding.its_job.key),
    )
    lines = [line for line in of_job[:] if line.finding.pk != finding.pk]
    for line in lines:
        line.finding.job = finding.job
    return [(line, BY_CODE[line.finding.cause]) for line in with_last_seen(lines)]


def _demand(finding: Finding, interval: Interval) -> demand.Demand | None:
    """Of the job's GPUs in the last day of the period, while they were the job's."""
    end_ms = min(interval.end_ms, finding.last_ms)
    start_ms = max(interval.start_ms, finding.first_ms, end_ms - DEMAND_H * HOUR_MS)
    if start_ms >= end_ms:
        return None
    gpus = GPU.objects.filter(allocations__job=finding.job).select_related("node").distinct()
    read = [
        telemetry.series(gpu, start_ms, end_ms, columns=["util_mean"], step_s=60)
        for gpu in gpus[:MAX_DEMANDING]
    ]
    return demand.demand([series.columns["util_mean"] for series in read])


@shows("dashboard/causes.html", "causes", "sort")
def causes(request: HttpRequest, period: Period) -> Context:
    sort = chosen(request, "sort", CAUSES_BY, default="wasted")
    waste = selectors.waste_by_cause(period.interval)
    places = machine_findings.findings(period.interval, now=period.now)
    of_jobs = inbox.recoverable_by_cause(period.interval, now=period.now)
    rows = catalogue_rows(waste, places, of_jobs)
    saving = together(row.saving for row in rows if row.saving)
    taking = [row for row in rows if row.has_taken]
    return {
        "rows": most_wasted_first(taking) if sort == "wasted" else taking,
        "folded": [row for row in rows if not row.has_taken],
        "all_causes": len(rows),
        "sort": sort,
        "wasted_usd": waste.totals.wasted_usd,
        "potential_usd": waste.totals.waste_usd["potential"],
        "saving": saving,
        "per_month": a_month(saving),
    }


def _cause(code: str) -> Cause:
    return existing(BY_CODE.get(code))


def _capacity(cause: Cause, period: Period) -> Context:
    """What it took of what no job held, and the GPUs that can't work now where it is a fault."""
    if cause.code not in OF_CAPACITY:
        return {}
    places = machine_findings.findings(period.interval, now=period.now)
    lost = [each.caused for each in places if each.finding.cause == cause.code]
    return {
        "lost": total(lost).saving if lost else None,
        "broken": broken_gpus() if cause.code in FAILURES else [],
    }


@shows("dashboard/cause.html", "causes", find=_cause)
def cause(_: HttpRequest, period: Period, cause: Cause) -> Context:
    lines = {line.key: line.totals for line in selectors.waste_by_cause(period.interval).lines}
    return {
        "cause": cause,
        "totals": lines.get(cause.code),
        **_clock_loss(cause, lines.get(cause.code), period.interval),
        **_capacity(cause, period),
        "rules": rules_in_words.rules(cause.code),
        "precision": selectors.precision().get(cause.code),
        "idle_after": policy_pages.idle_after() if cause.idle else [],
    }


def _clock_loss(cause: Cause, totals: Totals | None, interval: Interval) -> Context:
    """Of slowed GPUs what their clock cost, to who sees machines, and whether that is more than
    what counts as waste.
    """
    if cause.code != SLOWED or sight() is not None:
        return {}
    loss = clock_losses.in_all(interval)
    counted_usd = sum(totals.waste_usd.values(), Decimal(0)) if totals else Decimal(0)
    return {"clock_loss": loss, "clock_decides": loss.usd is not None and loss.usd > counted_usd}
