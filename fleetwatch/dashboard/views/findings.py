"""The savings inbox, one finding with its evidence, what people decide, and the explanation of each
cause.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.permissions import can_administer
from fleetwatch.costs.held import held_interval
from fleetwatch.dashboard import machine_pages as place_pages
from fleetwatch.dashboard import pages, words
from fleetwatch.dashboard import selectors as rows
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS, filtered, takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.recoverable import waterfall
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, UNFIT, of_kind, title
from fleetwatch.diagnosis.findings import (
    advice,
    deciding,
    evidence,
    fixes,
    machine_findings,
    recurrence,
    rules_in_words,
)
from fleetwatch.diagnosis.findings.alternatives import Alternative, in_words
from fleetwatch.diagnosis.findings.deciding import Decision, DecisionError
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.judgement import demand
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.telemetry import selectors as telemetry

PAGE_SIZE = 25
MAX_PLACES = 50
TOP_FIXES = 10
MAX_CHOICES = 200
SNOOZES = {"1": "1 day", "7": "1 week", "30": "30 days"}
STATUSES = {
    "open": "Open",
    "accepted": "Accepted",
    "snoozed": "Snoozed",
    "fixed": "Fixed",
    "dismissed": "Dismissed",
    "all": "All",
}
DEMAND_H = 24
IN_FORM = ("team", "user")  # filters with a field of their own
WASTED_STATES = ("idle", "stalled", "underused", "orphaned")
_DONE = {
    "accept": "Accepted: somebody will change it.",
    "dismiss": "Dismissed; it stays findable under Dismissed.",
    "snooze": "Snoozed; it comes back by itself.",
    "assign": "Assigned.",
    "fixed": "Marked as fixed: the next runs will show what it brought.",
    "reopen": "Open again.",
    "confirm": "Thank you: the diagnosis was right.",
    "reject": "Thank you: the diagnosis was wrong, and why is written down.",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the inbox with its words."""

    line: Line
    cause: Cause
    confidence: str
    step: Step
    alternatives: list[Alternative]


@require_GET
@login_required
@takes(
    "status", "cause", "job", "kind", "cluster", "state", *SUBJECTS, "assignee", "after", *PERIOD
)
def findings(request: HttpRequest) -> HttpResponse:
    if not rows.has_data():
        return redirect("welcome")
    period, asked = read_period(request), request.GET
    status = chosen(request, "status", STATUSES, default="open")
    code = chosen(request, "cause", (*BY_CODE, *UNFIT)) or None
    kind = chosen(request, "kind", Job.Kind.values) or None
    state = chosen(request, "state", WASTED_STATES) or None
    teams, people = list(Team.objects.order_by("slug")), list(deciding.candidates())
    team = chosen(request, "team", [team.slug for team in teams]) or None
    assignee = chosen(request, "assignee", [person.username for person in people])
    scope, filters = filtered(request)
    job, cluster = asked.get("job") or None, asked.get("cluster") or None
    scope = replace(scope, team=team, job=job)
    every = selectors.findings(period.interval, now=period.now, scope=scope, cause=code)
    # machines and the queue are nobody's team
    of_places = (
        []
        if scope != Scope(node=scope.node)
        else machine_findings.findings(period.interval, now=period.now, cause=code, node=scope.node)
    )
    if assignee:
        every, of_places = every.assigned(assignee), machine_findings.assigned(of_places, assignee)
    every, of_places = machine_findings.narrowed(
        every, of_places, kind=kind, cluster=cluster, state=state
    )
    others = {"job": job, "kind": kind, "cluster": cluster, "state": state} | filters
    place_lines = [line for line in of_places if status in ("all", line.status)]
    page = pages.page_of(
        every if status == "all" else every.of_status(status),
        after=asked.get("after", ""),
        size=PAGE_SIZE,
    )
    if page.is_first:
        first_page(request)
    shown = selectors.with_jobs(page.rows, before=period.interval.end)
    recoverable = machine_findings.saving(every, of_places, *machine_findings.RECOVERABLE)
    quarter = fixes.quarter(period.interval.end - timedelta(microseconds=1), period.zone)
    fixed = fixes.top_fixes(quarter)
    context = {
        "lines": [_row(line) for line in shown],
        "pager": page,
        "status": status,
        "statuses": STATUSES.items(),
        "places": [place_pages.row(line) for line in place_lines[:MAX_PLACES]],
        "places_left": max(len(place_lines) - MAX_PLACES, 0),
        "recoverable": recoverable,
        "steps": waterfall(
            period.interval,
            scope,
            machine_findings.wasted_usd(every, of_places, *machine_findings.RECOVERABLE),
            recoverable,
        ),
        "accepted": machine_findings.saving(every, of_places, "accepted"),
        "capacity": place_pages.capacity(of_places),
        "progress": machine_findings.progress(period.interval, now=period.now),
        "realised": fixes.realised(fixed),
        "quarter": words.quarter(quarter.start),
        "fixes": [(one, title(one.fix.cause)) for one in fixed[:TOP_FIXES]],
        "counts": every.counts() + Counter(line.status for line in of_places),
        "causes": [cause for cause in CATALOGUE if cause.code not in UNFIT],
        "teams": teams[:MAX_CHOICES],
        "people": people[:MAX_CHOICES],
        "filters": {
            "cause": code,
            "team": team,
            "user": asked.get("user", ""),
            "assignee": assignee,
        },
        "other_filters": {
            name: value for name, value in others.items() if value and name not in IN_FORM
        },
        "is_admin": can_administer(request.user),
        "has_examples": any(row.caused.has_example_rates for row in (*shown, *place_lines)),
    }
    return render(request, "dashboard/findings.html", period.context("findings", **context))


def _row(line: Line) -> Row:
    job = line.job
    cause = of_kind(line.finding.cause, job.kind)
    place = evidence.place_of(job, may_work=line.may_work)
    return Row(
        line,
        cause,
        CONFIDENCES[line.caused.confidence],
        advice.first_step(cause, place),
        in_words(line.alternatives, job.kind),
    )


@require_GET
@login_required
@never_cache
@takes(*PERIOD)
def finding(request: HttpRequest, pk: int) -> HttpResponse:
    return _finding_page(request, _found(pk))


@require_POST
@login_required
@never_cache
def decide(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """One decision, then back to where it was taken.

    Admins decide; everybody says whether a diagnosis is right.
    """
    if action not in deciding.KINDS:
        raise Http404(action)
    user, found = cast("User", request.user), _found(pk)
    if not deciding.may_decide(user, action):
        raise PermissionDenied("only admins decide about findings")
    now = read_period(request).now
    days, name = request.POST.get("days", ""), request.POST.get("assignee", "")
    note, until = (
        request.POST.get("note", ""),
        now + timedelta(days=int(days)) if days in SNOOZES else None,
    )
    try:
        decision = Decision(
            action, note, until, deciding.assignee(name) if action == "assign" else None
        )
        deciding.decide(found.pk, decision, by=user, now=now)
    except DecisionError as error:
        return _finding_page(request, found, action=action, error=str(error), status=422)
    except Finding.DoesNotExist:
        raise Http404(pk) from None  # its hours were judged anew meanwhile
    messages.success(request, _DONE[action])
    back = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(back, {request.get_host()})
    return redirect(back if is_ours else reverse("finding", args=[found.pk]))


def _found(pk: int) -> Finding:
    if pk >= 2**62:
        raise Http404(pk)
    return get_object_or_404(
        Finding.objects.select_related("job", "job__team", "node", "assignee"), pk=pk
    )


def _finding_page(
    request: HttpRequest, found: Finding, *, action: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    if found.job_id is None:
        template, of_subject = "dashboard/place_finding.html", place_pages.context
        whole: Interval | None = machine_findings.whole(found)
    else:
        template, of_subject = "dashboard/finding.html", _of_job
        whole = held_interval(found.its_job)
    period = read_period(request, whole=whole)
    context = of_subject(found, period) | {
        "finding": found,
        "finding_id": str(found.pk),
        "precision": selectors.precision().get(found.cause),
        "history": selectors.history(found),
        "people": deciding.candidates(found)[:MAX_CHOICES],
        "snoozes": SNOOZES.items(),
        "is_admin": can_administer(request.user),
        "action": action,
        "error": error,
        "sent": request.POST,
    }
    return render(request, template, period.context("findings", **context), status=status)


def _of_job(found: Finding, period: Period) -> dict[str, Any]:
    """What the page of a job's finding shows of it alone."""
    job = found.its_job
    line = selectors.with_jobs(
        [selectors.line_of(found, period.interval, now=period.now)], before=period.interval.end
    )[0]
    seen = evidence.evidence_of(found)
    gpus = {"gpus": max(line.gpus, 1), "affected_gpus": line.gpus}
    facts = seen.facts if seen else evidence.facts_of(job, None, **gpus, may_work=line.may_work)
    return {
        "line": line,
        "confidence": CONFIDENCES[line.caused.confidence],
        "evidence": seen,
        "advice": advice.advise(found.cause, facts),
        "alternatives": in_words(line.alternatives, job.kind),
        "others": [
            Row(other, BY_CODE[other.finding.cause], "", Step(""), [])
            for other in _others(found, period.interval, line)
        ],
        "ahead": recurrence.projection(job, found.cause, now=period.now),
        "demand": _demand(found, period.interval) if BY_CODE[found.cause].shows_demand else None,
        "fixed": fixes.of_finding(found),
    }


def _others(found: Finding, interval: Interval, line: Line) -> list[Line]:
    """The job's other findings in the period."""
    lines = selectors.findings(
        interval, now=line.finding.decided_at or interval.end, scope=Scope(job=found.its_job.key)
    )
    return [other for other in lines[:] if other.finding.pk != found.pk]


def _demand(found: Finding, interval: Interval) -> demand.Demand | None:
    """Of the job's GPUs in the last day of the period."""
    end_ms = min(interval.end_ms, found.last_ms)
    start_ms = max(interval.start_ms, end_ms - DEMAND_H * 3_600_000)
    if start_ms >= end_ms:
        return None
    gpus = list(
        GPU.objects.filter(allocations__job=found.job).select_related("node").distinct()[:64]
    )
    return demand.demand(
        [
            telemetry.series(gpu, start_ms, end_ms, columns=["util_mean"], step_s=60).columns[
                "util_mean"
            ]
            for gpu in gpus
        ]
    )


@require_GET
@login_required
@takes()
def causes(request: HttpRequest) -> HttpResponse:
    return render(
        request, "dashboard/causes.html", read_period(request).context("causes", causes=CATALOGUE)
    )


@require_GET
@login_required
@takes()
def cause(request: HttpRequest, code: str) -> HttpResponse:
    if code not in BY_CODE:
        raise Http404(code)
    context = {
        "cause": BY_CODE[code],
        "rules": rules_in_words.rules(code),
        "precision": selectors.precision().get(code),
    }
    return render(
        request, "dashboard/cause.html", read_period(request).context("causes", **context)
    )
