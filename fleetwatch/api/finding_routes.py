"""Findings in the API: why GPU time was wasted, with evidence, savings and advice; and what people
decide about them.
"""

from dataclasses import fields
from datetime import datetime
from typing import Annotated, Literal

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Query, Router, Schema
from ninja.security import django_auth
from pydantic import AwareDatetime, Field

from fleetwatch.accounts.models import User
from fleetwatch.api.answer_types import (
    Answer,
    At,
    GPUHours,
    Joined,
    KeyOrNone,
    NameOrNone,
    SlugOrNone,
    TextOrNone,
    Usd,
    UUIDOf,
    attribute,
    fields_of,
    read_as,
)
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.money_figures import tier_row
from fleetwatch.api.request_period import INBOX, RequestError, asked, required
from fleetwatch.api.request_period import Asked as AskedPeriod
from fleetwatch.api.schemas import (
    Filter,
    ListedInPeriod,
    Name,
    Paging,
    Period,
    PeriodAsked,
    WasteTier,
)
from fleetwatch.api.vocabulary import FindingConfidence, FindingStatus, WastedState
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.causes import OF_CAPACITY
from fleetwatch.diagnosis.causes import title as title_of
from fleetwatch.diagnosis.findings import (
    alternatives,
    deciding,
    evidence,
    fixes,
    inbox,
    machine_findings,
    patterns,
)
from fleetwatch.diagnosis.findings.deciding import Decision
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.findings.recurrence import projection
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.totals import Scope
from fleetwatch.ledger.policy import TIERS

MAX_PROCESSES = 100
PatternWhen = Literal["now", "habit", "once"]
NARROWING = {field.name for field in fields(inbox.Which)}

router = Router(tags=["findings"])


class Savings(Schema):
    """What could have been recovered in the period, from low to high: past loss, never a promise.
    Of a finding whose priced step was measured it is what that step alone would have saved, low and
    high alike, as pages show it and sums and ranks count it.
    """

    low_gpu_hours: GPUHours = Field(alias="low_ms")
    high_gpu_hours: GPUHours = Field(alias="high_ms")
    low_usd: Usd
    high_usd: Usd


class Step(Schema):
    """What to do, and what to type ("" = nothing); `detail` goes on where there is room."""

    text: str
    code: str
    detail: str
    topics: tuple[str, ...]
    sign: str


class Alternative(fields_of(alternatives.Alternative)):  # type: ignore[misc]
    """A cause that telemetry could not tell from the finding's, and the step that does."""

    step: Step


class FindingRow(Schema):
    """One cause of one subject: a job, a node, or a cluster's queue; the other two are null.
    `confidence` is empty where nothing of it is in the period.

    Waste by tier is of affected time: idle, stalled and underused. `is_capacity`: what is affected
    is a line of its own (unavailable, unobserved, free), wastes nothing of these, and its savings
    are in no sum but `capacity`.
    """

    id: int
    cause: str
    title: Annotated[str, read_as(title_of)] = Field(alias="cause")
    confidence: Annotated[FindingConfidence, read_as(CONFIDENCES.__getitem__)]
    status: FindingStatus
    snoozed_until: datetime | None
    assignee: str | None = Field(alias="assignee.username")
    job: KeyOrNone
    job_name: str
    user: str
    team: SlugOrNone
    node: NameOrNone
    cluster: TextOrNone
    is_capacity: Annotated[bool, read_as(OF_CAPACITY.__contains__)] = Field(alias="cause")
    first_at: At = Field(alias="first_ms")
    last_at: At = Field(alias="last_ms")
    gpus: int
    alternatives: list[Alternative]
    affected_gpu_hours: GPUHours = Field(alias="held_ms")
    wasted_gpu_hours: GPUHours = Field(alias="wasted_ms")
    wasted_usd: Usd
    waste: dict[str, WasteTier]
    savings: Savings = Field(alias="saving")
    unpriced_ms: int
    has_example_rates: bool


class FindingPage(ListedInPeriod[FindingRow]):
    """Findings of jobs with time in the period, most recoverable dollars first; those of nodes and
    of queues in `places`, on every page alike (none where a job, user, team or the like is asked
    for). `recoverable` sums those that are open or snoozed, `accepted` those that somebody
    accepted: kept apart, and never more than what was wasted. `capacity`: GPUs that could not work,
    or were free while jobs waited.
    """

    recoverable: Savings
    accepted: Savings
    capacity: Savings
    places: list[FindingRow]


class PatternRow(Schema):
    """Findings of one cause in jobs of one owner and name. `finding` is that of the latest run, of
    those that go on where one does, `job` its job. `when`: now (it goes on), habit (of several
    runs, or of a job that has not ended), once (one job, which is over). `per_month`: what it could
    save in the next 30 days, whatever the period: next_30_days of each of its findings. Null of
    what does not recur.
    """

    finding: int
    cause: str
    title: Annotated[str, read_as(title_of)] = Field(alias="cause")
    when: PatternWhen
    job: KeyOrNone
    job_name: str
    user: str
    team: SlugOrNone
    runs: int
    last_at: At = Field(alias="last_ms")
    affected_gpu_hours: GPUHours = Field(alias="held_ms")
    wasted_gpu_hours: GPUHours = Field(alias="wasted_ms")
    wasted_usd: Usd
    savings: Savings = Field(alias="saving")
    per_month: Savings | None
    unpriced_ms: int


class Sign(fields_of(evidence.Read)):  # type: ignore[misc]
    """One comparison of the rule; `value` null = not read, then it is neither met nor not."""


class Evidence(Schema):
    gpu: UUIDOf
    start_at: At = Field(alias="start_ms")
    end_at: At = Field(alias="end_ms")
    reasons: str
    signs: list[Sign]


class Process(Schema):
    """A process of no job on an orphaned GPU, as it was last seen."""

    gpu: UUIDOf
    pid: int
    user: str
    name: str
    memory_bytes: int | None
    seen_at: At = Field(alias="seen_ms")


class Said(Schema):
    kind: str
    by: Annotated[str | None, attribute("username")]
    at: datetime
    note: str


class Next30Days(Schema):
    """What could be recovered if runs go on as in the last two weeks (or since there are figures),
    in which at least three of the same owner and name lost time to the cause.
    """

    runs: int
    low_gpu_hours: GPUHours = Field(alias="saving.low_ms")
    high_gpu_hours: GPUHours = Field(alias="saving.high_ms")
    low_usd: Usd = Field(alias="saving.low_usd")
    high_usd: Usd = Field(alias="saving.high_usd")


class FixOutcome(Schema):
    """What a fix brought: the useful share of the runs before and after it, 0 to 1, and the 95 %
    interval of their difference; null with fewer than three runs on a side. Hours count as saved
    only where runs became shorter.
    """

    at: datetime
    outcome: Literal["waiting", "improved", "unproven", "regressed"]
    runs_before: int
    runs_after: int
    useful_before: float | None
    useful_after: float | None
    effect_low: float | None
    effect_high: float | None
    saved: Savings = Field(alias="saving")


class FindingDetail(Period, FindingRow):
    """A finding with what it rests on and what to do. `evidence` is null where its telemetry is no
    longer kept, `fix` where nobody called it fixed, or that was not measured yet. `at_most`: what
    ending all of it at once would have saved, where `savings` are those of a step alone; else null.
    """

    sentence: str
    evidence: Evidence | None
    steps: list[Step]
    also: list[Step]
    command: str
    effort: str
    range: str = Field(alias="range_words")
    at_most: Savings | None
    alike: str
    tell: list[Step]
    next_30_days: Next30Days | None
    precision: float | None = Field(alias="precision.share")
    fix: FixOutcome | None
    processes: list[Process]
    history: list[Said]


class FindingDecision(Schema):
    """`note` is the reason (dismiss and reject need one), `until` (with a zone) ends a snooze,
    `assignee` is a user name ("" = nobody). What is dismissed is agreed as not waste; what is
    exempt, too, until a day.
    """

    note: str = Field("", max_length=deciding.MAX_NOTE)
    until: AwareDatetime | None = None
    assignee: str = Field("", max_length=150)


Action = Literal["accept", "dismiss", "snooze", "assign", "fixed", "reopen", "confirm", "reject"]


class Which(Filter):
    """Which findings: of a job, a cause, a status (null: any), given to somebody ("": to nobody),
    of jobs of a kind or cluster, with wasted time in a state.
    """

    job: Name = None
    cause: Name = None
    status: FindingStatus | None = None
    assignee: Name = None
    state: WastedState | None = None
    job_name: Name = None


class When(Schema):
    """Of patterns those that go on now, come back, or are over (null: any)."""

    when: PatternWhen | None = None


@router.get("/findings", operation_id="listFindings", response=FindingPage)
def findings(
    request: HttpRequest,
    period: PeriodAsked,
    which: Query[Which],
    paging: Paging,
) -> Answer:
    """Why GPU time was wasted, by what it could save, in the last 7 days unless asked otherwise.

    Without `status` all of them.
    """
    wanted = asked(request, default=INBOX)
    every = _wanted(wanted, which)
    shown = every if which.status is None else every.of_status(which.status)
    page, following = wanted.page(shown.of_jobs, paging.limit)
    return wanted.answer(
        recoverable=every.saving(*inbox.RECOVERABLE),
        accepted=every.saving("accepted"),
        capacity=every.capacity(),
        places=list(map(finding_row, shown.of_places)),
        rows=list(map(finding_row, selectors.with_jobs(page, before=wanted.interval.end))),
        next_cursor=following,
    )


@router.get(
    "/findings/patterns", operation_id="listFindingPatterns", response=ListedInPeriod[PatternRow]
)
def finding_patterns(
    request: HttpRequest,
    period: PeriodAsked,
    which: Query[Which],
    when: Query[When],
    paging: Paging,
) -> Answer:
    """Findings of jobs by owner, cause and job name, in the last 7 days unless asked otherwise."""
    wanted = asked(request, default=INBOX)
    now = timezone.now()
    every = _wanted(wanted, which)
    shown = every if which.status is None else every.of_status(which.status)
    every_pattern = patterns.patterns(shown.of_jobs, wanted.interval, now=now)
    page, following = wanted.page(
        every_pattern.of(when.when) if when.when else every_pattern, paging.limit
    )
    return wanted.answer(rows=list(map(_pattern_row, page)), next_cursor=following)


@router.get("/findings/{int:number}", operation_id="getFinding", response=FindingDetail)
def finding(request: HttpRequest, number: int, period: PeriodAsked) -> Joined:
    """One finding in the period, with its evidence and advice."""
    return _detail(request, _finding(number))


@router.post(
    "/findings/{int:number}/{action}",
    operation_id="decideFinding",
    response=FindingDetail,
    auth=[WriteToken(), django_auth],
)
def decide(
    request: HttpRequest,
    number: int,
    action: Action,
    wanted: Body[FindingDecision],
    period: PeriodAsked,
) -> Joined:
    """Accept, dismiss, snooze, assign, fixed, reopen: for operators, whose job it is, who leads the
    team, and whom it was given to. Who assigns it to himself takes it over.

    Confirm, reject: for everybody, is the diagnosis right?
    """
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    _finding(number)
    try:
        whose = deciding.assignee(wanted.assignee) if action == "assign" else None
        decision = Decision(action, wanted.note, wanted.until, whose)
        deciding.decide(number, decision, by=user, now=timezone.now())
    except PermissionDenied as error:
        raise RequestError(str(error), field="action", status=403) from error
    except Finding.DoesNotExist:
        pass  # somebody removed it meanwhile
    return _detail(request, _finding(number))


def _wanted(period: AskedPeriod, which: Which) -> inbox.Inbox:
    return inbox.inbox(
        period.interval,
        now=timezone.now(),
        scope=Scope(**which.dict(exclude={"status", *NARROWING})),
        which=inbox.Which(**which.dict(include=NARROWING)),
    )


def _pattern_row(pattern: patterns.Pattern) -> Joined:
    line = pattern.line
    job = line.job
    return Joined(
        pattern,
        pattern.caused,
        finding=line.finding.pk,
        job=job,
        user=job.user,
        team=job.team,
        cause=line.finding.cause,
    )


def _finding(number: int) -> Finding:
    return required(inbox.finding(number), "finding", field="number")


def _detail(request: HttpRequest, finding: Finding) -> Joined:
    now = timezone.now()
    wanted = asked(request, default=INBOX, whole=inbox.whole(finding))
    seen = inbox.explained(finding, wanted.interval, now=now)
    fix = fixes.of_finding(finding)
    return Joined(
        finding_row(seen.line),
        seen.advice,
        seen.advice.cause,
        evidence=seen.evidence,
        next_30_days=projection(finding.job_id, finding.cause, now=now),
        precision=selectors.precision().get(finding.cause),
        fix=fix and Joined(fix, fix.fix),
        processes=machine_findings.processes(finding, wanted.interval)[:MAX_PROCESSES],
        history=selectors.history(finding),
        **wanted.echo(),
    )


def finding_row(line: Line) -> Joined:
    """The finding as a row of the list."""
    finding = line.finding
    job = finding.job
    caused = line.caused
    is_snoozed = line.status == Finding.Status.SNOOZED
    return Joined(
        line,
        finding,
        caused,
        snoozed_until=finding.snoozed_until if is_snoozed else None,
        confidence=caused.confidence,
        job=job,
        job_name=job.name if job else "",
        user=job.user if job else "",
        team=job and job.team,
        alternatives=alternatives.in_words(line.alternatives, job.kind if job else ""),
        waste={tier: tier_row(caused.tier_ms[tier], caused.tier_usd[tier]) for tier in TIERS},
    )
