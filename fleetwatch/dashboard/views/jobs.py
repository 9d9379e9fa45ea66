"""One job."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from datetime import datetime
from decimal import Decimal
from typing import cast
from urllib.parse import quote

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from fleetwatch.accounts.models import User
from fleetwatch.alerts.incidents import machine_incidents
from fleetwatch.costs.held import held_interval
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.sites import energy
from fleetwatch.dashboard import job_lines, numbers, selectors
from fleetwatch.dashboard.agreed_time import AgreedTime, agreed_time
from fleetwatch.dashboard.agreements import Agreement, agreements, behind_what
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.drawing.references import of_job_with_findings
from fleetwatch.dashboard.earlier_runs import earlier_runs
from fleetwatch.dashboard.ending_faults import EndingFault, ending_fault
from fleetwatch.dashboard.freshness import Freshness
from fleetwatch.dashboard.job_history import change_lines, otherwise_lines
from fleetwatch.dashboard.job_lines import JobLine
from fleetwatch.dashboard.job_memory import most_memory
from fleetwatch.dashboard.job_orders import Signals
from fleetwatch.dashboard.job_requests import (
    measured_cpus,
    measured_memory,
    notes,
    other_labels,
    request_lines,
)
from fleetwatch.dashboard.parameters import (
    PERIOD,
    takes,
)
from fleetwatch.dashboard.period import Period, floor_minute, read_period
from fleetwatch.dashboard.problems import Problem, of_incidents
from fleetwatch.dashboard.selectors import GPULine
from fleetwatch.dashboard.showing import Context, existing, live, page
from fleetwatch.dashboard.stuck_jobs import stuck
from fleetwatch.dashboard.wasting_now import last_hour
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.cause_totals import Caused
from fleetwatch.diagnosis.causes import (
    BY_CODE,
    SLOWED,
    UNMEASURED,
    WELL_CODES,
    of_job,
    of_kind,
    title,
)
from fleetwatch.diagnosis.findings import clock_losses, inbox, machine_findings
from fleetwatch.diagnosis.findings.alternatives import Alternative, alternatives, in_words
from fleetwatch.diagnosis.findings.deciding import assignable, decidable, own
from fleetwatch.diagnosis.findings.fixes import came_back
from fleetwatch.diagnosis.findings.inbox import AGREED, RECOVERABLE, UNDECIDED, Explained
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.findings.seen_on import with_last_seen
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Group, Scope
from fleetwatch.figures.totals import ZERO, Totals
from fleetwatch.jobs.job_links import links_of
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.jobs.selectors import (
    changes,
    contradictions,
    namesakes,
    processes_of,
    wait_ms,
)
from fleetwatch.jobs.selectors import job as job_of_key
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms

JOB_PAGE = "dashboard/job.html"
MAX_CHOICES = 200  # of people that a finding may be given to
PAUSING = ("batch", "interactive")  # a service's quiet time is waiting
LEAST_ALIKE = 4  # GPUs: fewer are shown as they are
MAX_SAID = 20  # decisions about a job's findings, the newest


@require_GET
@login_required
@takes("gpu", *PERIOD)
def job(request: HttpRequest, key: str) -> HttpResponse:
    return live(request, JOB_PAGE, lambda fresh: _job(request, key, fresh))


def _job(request: HttpRequest, key: str, fresh: Freshness) -> HttpResponse:
    job = existing(job_of_key(key))
    held = held_interval(job)
    period = read_period(request, whole=held)
    drawn = period.within(held)  # the rest of it would be empty
    with_outcomes(attribution.into_teams([job], before=period.interval.end))
    by_gpu = costs.breakdown(period.interval, "gpu", scope=Scope(job=job.key))
    gpus = _gpu_lines(job, by_gpu.lines, drawn.interval)
    context = {
        **fresh.context(),
        "job": job,
        **_diagnosed(request, job, period, by_gpu.totals),
        "drawn": drawn.timeframe,
        **_beside(job, gpus, period, by_gpu.totals),
        **_said_of(job, period.now),
        **_used_by(request, job, gpus, period),
    }
    context |= _asked_for(job, gpus, period, context)
    return page(
        request, period, JOB_PAGE, "jobs", _with_agreements(request, job, period.now, context)
    )


def _went_well(job: Job, context: Context) -> Context:
    """Of a job with findings the hour that its curves have beside them."""
    if not (context["curves_of"] and context["findings"]):
        return {}
    return {"went_well": of_job_with_findings(job, context["curves_of"])}


def _with_agreements(request: HttpRequest, job: Job, now: datetime, context: Context) -> Context:
    """The same with what people agreed on, and what comes behind that."""
    lines = [line for line, *_ in context["findings"]]
    history = [each for each, _ in context["history"]]
    agreed = agreements(job, lines, history, reader=cast("User", request.user), now=now)
    advised = context["advised"]
    behind = behind_what(agreed, advised) if advised else ""
    return context | {
        "agreements": agreed,
        "behind": behind,
        "no_waste": None if advised else _no_waste(agreed, context["totals"]),
        "agreed_usd": _agreed_usd(lines),
        "agreed_until": _agreed_until(agreed),
        **_stops(context, behind),
    }


def _no_waste(agreed: Sequence[Agreement], totals: Totals) -> AgreedTime | None:
    """Of a job of which all was agreed."""
    return agreed_time(
        agreed, states=totals.states, tiers=totals.waste_ms, whole_ms=totals.capacity_ms
    )


def _agreed_usd(lines: Iterable[Line]) -> Decimal:
    """Dollars of what it wasted (certain and probable) by findings that people agreed on."""
    return sum((line.caused.totals.wasted_usd for line in lines if line.status in AGREED), ZERO)


def _agreed_until(agreed: Iterable[Agreement]) -> datetime | None:
    """When that ends; None where that is no day, or several."""
    ends = {each.until for each in agreed if each.is_no_waste}
    return ends.pop() if len(ends) == 1 else None


def _stops(context: Context, behind: str) -> Context:
    """What an hour wastes that ends with the job, where ending it is the first thing to do, and the
    step by which its saving so far is counted.
    """
    advised: Explained | None = context["advised"]
    if advised is None or behind:
        return {}
    advice = advised.advice
    lately = context["last_hour"]
    if not (lately and advice.command and advice.cause.is_ended):
        return {}
    costed = advice.costed if advised.line.by_step else None
    return {"stops_usd": lately.wasted_usd, "costed": costed}


def _beside(job: Job, gpus: Sequence[GPULine], period: Period, totals: Totals) -> Context:
    """Its sums and energy, what it wastes now, and what fires."""
    return {
        "totals": totals,
        "energy": energy(period.interval, scope=Scope(job=job.key)),
        "last_hour": last_hour(job, period.minute),
        "problems": _problems(job, gpus, period, totals),
    }


def _first_node(gpus: Sequence[GPULine]) -> str:
    """By name, of those that it held GPUs of; "" = none."""
    return min((line.gpu.node.name for line in gpus), default="")


def _curves(
    request: HttpRequest, job: Job, gpus: Sequence[GPULine], fault: EndingFault | None
) -> Context:
    """The GPU whose curves are shown: the one asked for, else the one whose fault ended the job,
    else the one that wasted most; None where it held none, and where the reader sees a part of its
    time alone.
    """
    is_whole = attribution.seen_spans(job) is None
    failed = fault.gpu.uuid if fault else ""
    asked = chosen(request, "gpu", [line.gpu.uuid for line in gpus], default=failed)
    shown = [line.gpu for line in gpus if is_whole and asked in ("", line.gpu.uuid)]
    gpu = shown[0] if shown else None
    return {
        "job_parameter": quote(job.key, safe=""),
        "is_explained": is_whole,
        "curves_of": gpu,
        "gpu_parameter": quote(gpu.uuid, safe="") if gpu else "",
    }


def _are_alike(gpus: Sequence[GPULine]) -> bool:
    """Whether several GPUs read the same in every column: a line says it of all."""
    shown = {
        (
            round(line.totals.capacity_ms / HOUR_MS, 2),
            round(line.totals.cost_usd, 2),
            round(line.totals.wasted_usd, 2),
            numbers.percent(line.totals.wasted_share_of_cost or 0),
        )
        for line in gpus
    }
    return len(gpus) >= LEAST_ALIKE and len(shown) == 1


def _used_by(request: HttpRequest, job: Job, gpus: Sequence[GPULine], period: Period) -> Context:
    """What it held and what of it is drawn, its processes, and where else something of it is."""
    fault = ending_fault(job, [line.gpu for line in gpus])
    return {
        "links": links_of(job, node=_first_node(gpus), now=period.now),
        "gpus": gpus,
        "ending_fault": fault,
        "are_alike": _are_alike(gpus),
        **_curves(request, job, gpus, fault),
        "labels": other_labels(job),
        "processes": processes_of(job),
    }


def _asked_for(job: Job, gpus: Sequence[GPULine], period: Period, context: Context) -> Context:
    """What it asked for beside what it held, as far as somebody said or measured it; and what its
    curves have beside them.
    """
    advised: Explained | None = context["advised"]
    seen = advised.evidence if advised else None
    memory = most_memory(job) if context["is_explained"] else None
    now_ms = to_ms(period.now)
    lines = request_lines(job, gpus=len(gpus), now_ms=now_ms, evidence=seen, memory=memory)
    return {
        **_went_well(job, context),
        "requested": [line for line in lines if line.is_known],
        "requested_notes": [
            *filter(None, [measured_cpus(seen), measured_memory(memory)]),
            *notes(lines, is_submit_known=job.submit_ms is not None),
        ],
    }


def _problems(job: Job, gpus: Sequence[GPULine], period: Period, totals: Totals) -> list[Problem]:
    """What fires of the job, and of the GPUs that it holds: those of a job that is over are
    others' now. Its own count to this second, its cost as far as it was posted: where all of that
    is shown, no more than it.
    """
    held = [line.gpu.uuid for line in gpus] if job.end_ms is None else []
    is_whole = job.start_ms is not None and period.interval.start_ms <= job.start_ms
    reaches_now = period.interval.end >= floor_minute(period.now)
    most_usd = {job.key: totals.cost_usd} if is_whole and reaches_now else {}
    return of_incidents(machine_incidents.of_job(job.key, held), period.now, most_usd)


def _said_of(job: Job, now: datetime) -> Context:
    """Who said what of it: its sources and its history, and its earlier runs."""
    return {
        "runs": earlier_runs(job, now),
        "wait_ms": wait_ms(job),
        "namesakes": namesakes(job),
        "otherwise": otherwise_lines(contradictions(job)),
        "changes": change_lines(changes(job)),
        "sources": sorted(set(Allocation.objects.filter(job=job).values_list("source", flat=True))),
    }


def _of_findings(request: HttpRequest, job: Job, period: Period) -> Context:
    """The job's findings, which of them the reader decides about, and who did what about them."""
    user = cast("User", request.user)
    of_job = diagnosis.findings(period.interval, now=period.now, scope=Scope(job=job.key))
    lines = inbox.as_they_stand(of_job, period.now)[:]
    findings = [line.finding for line in lines]
    for finding in findings:
        finding.job = copy(job)  # its team now, where the page shows the period's
    advised = _advised(lines, period)
    may_decide = decidable(user, findings, now=period.now)
    return {
        "advised": advised,
        "may_tell": _may_tell(user, advised, may_decide),
        "stuck": stuck(lines, job.end_ms),
        **_with_fixes(job, lines),
        **_decisions(lines, may_decide),
        "people": assignable(user, period.now)[:MAX_CHOICES],
        "history": [
            (each, title(each.finding.cause)) for each in diagnosis.history(*findings)[:MAX_SAID]
        ],
    }


def _with_fixes(job: Job, lines: Sequence[Line]) -> Context:
    causes = [line.finding.cause for line in lines]
    return {
        "findings": _findings(job, lines),
        "came_back": came_back(job, causes) if causes else {},
    }


def _decisions(lines: Iterable[Line], may_decide: Collection[int]) -> Context:
    own = (line.status for line in lines if line.finding.pk in may_decide)
    return {"decidable": may_decide, "offered": _offered(own)}


def _offered(statuses: Iterable[str]) -> set[str]:
    """What can be decided about findings that stand so, as their buttons say."""
    offered: set[str] = set()
    for status in statuses:
        if status in AGREED:
            offered.add("end")
        elif status == Finding.Status.FIXED:
            offered.add("reopen")
        else:
            offered.add("fixed")
            offered.add("accept" if status in RECOVERABLE else "snooze")
            if status == Finding.Status.OPEN:
                offered.add("snooze")
    return offered


def _may_tell(user: User, advised: Explained | None, may_decide: Collection[int]) -> bool:
    """Whether the reader decides about it, and somebody else runs the job."""
    if advised is None or advised.line.finding.pk not in may_decide:
        return False
    job = advised.line.finding.its_job
    return bool(job.user) and not own(user, {job.pk: job})


def _advised(lines: Sequence[Line], period: Period) -> Explained | None:
    """What to change first: of the finding that could save most and that is not settled."""
    waiting = [line.finding for line in lines if line.status in UNDECIDED]
    if not waiting:
        return None
    return inbox.explained(waiting[0], period.interval, now=period.now)


def _findings(job: Job, lines: Sequence[Line]) -> list[tuple[Line, Cause, str, list[Alternative]]]:
    """Each with its cause, how sure it is, and what else it could be."""
    others = alternatives([(job.pk, line.finding.cause) for line in lines])
    return [
        (
            line,
            of_kind(line.finding.cause, job.kind),
            CONFIDENCES[line.caused.confidence],
            in_words(others.get((job.pk, line.finding.cause), ()), job.kind),
        )
        for line in with_last_seen(lines)
    ]


def _diagnosed(request: HttpRequest, job: Job, period: Period, totals: Totals) -> Context:
    of_findings = _of_findings(request, job, period)
    causes = [cause for _, cause, *_ in of_findings["findings"]]
    why = _why(job, period.interval, totals, causes)
    return {**of_findings, **why, "quiet_ms": _quiet_ms(job)}


def _quiet_ms(job: Job) -> int | None:
    """How long it may be quiet before that is idle; until then it is stalled. None for services,
    which wait.
    """
    return current_policy()[1].idle_ms(job.kind) if job.kind in PAUSING else None


def _why(job: Job, interval: Interval, totals: Totals, causes: Sequence[Cause]) -> Context:
    """The verdict and its cause, None where nothing was diagnosed, or nothing is to change
    (`is_well`; `well` is what its sensors say of that, "" where nobody knows; `is_only_busy`: how
    well it uses its GPUs is not measured); and what its machines lost it. `causes` are those of its
    findings.
    """
    several = diagnosis.caused_of(job, interval)
    line = _verdict(job, interval, totals, several)
    slowed = next((each for each in several if each.cause == SLOWED), None)
    is_well = line.is_well and not causes and slowed is None
    code = line.cause.cause if line.cause else ""
    is_known = code in BY_CODE and not is_well
    return {
        **_named(line, of_job(code, job.kind, totals.coverage) if is_known else None, causes),
        "is_well": is_well,
        "is_only_busy": code in UNMEASURED,
        "well": BY_CODE[code].sentence if is_well and code in WELL_CODES else "",
        "is_in_pauses": is_known and _is_in_pauses(code, several),
        "slowed": slowed,
        **_slowed(job, interval, slowed),
    }


def _slowed(job: Job, interval: Interval, slowed: Caused | None) -> Context:
    """Which machines slowed it, and what their clock cost it."""
    if slowed is None:
        return {"clock_loss": None, "slowed_by": []}
    return {
        "clock_loss": clock_losses.of_job(job, interval),
        "slowed_by": machine_findings.slowing(job, interval),
        "most_slowed": clock_losses.most_slowed(job, interval),
    }


def _verdict(job: Job, interval: Interval, totals: Totals, several: Sequence[Caused]) -> JobLine:
    """The job as lists have it."""
    primary = diagnosis.primary(several) if several else None
    lasted = job_lines.lasted(job, interval)
    return JobLine(Group(job.key, "", totals), job, primary, None, Signals(), *lasted)


def _named(line: JobLine, cause: Cause | None, causes: Sequence[Cause]) -> Context:
    """The cause and the verdict as lists say it; of a job that works and yet has findings those of
    the first.
    """
    shown = {"underused_usd": line.underused_usd}
    if line.is_well and causes:
        return {**shown, "cause": causes[0], "verdict": causes[0].title}
    return {**shown, "cause": cause, "verdict": line.why}


def _is_in_pauses(code: str, several: Sequence[Caused]) -> bool:
    """Whether what an idle job wasted is mostly stalled: its pauses were too short to be idle."""
    states = next(each.totals.states for each in several if each.cause == code)
    return bool(BY_CODE[code].idle) and states["stalled"] > states["idle"]


def _gpu_lines(job: Job, groups: Sequence[Group], interval: Interval) -> list[GPULine]:
    """The job's GPUs, those that wasted most first."""
    lines = selectors.gpu_lines(
        selectors.job_gpus(job), {group.key: group.totals for group in groups}, interval, job=job
    )
    return sorted(lines, key=lambda line: -line.totals.wasted_ms)
