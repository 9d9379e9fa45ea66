"""Reads of diagnosis: findings by what they could save, waste by cause, why a job wastes.

Figures are of exactly the interval, as those of costs are.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter, itemgetter

from django.db.models import Count, Max, Sum

from fleetwatch.accounts.models import User
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import narrowed
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.diagnosis import cause_columns
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import Caused, Saving, nothing, rest, total
from fleetwatch.diagnosis.causes import BY_CODE, OF_NODES, OF_STATES, UNDETERMINED, UNFIT, title
from fleetwatch.diagnosis.findings.alternatives import Key, alternatives
from fleetwatch.diagnosis.findings.deciders import with_assignees, with_deciders
from fleetwatch.diagnosis.findings.ranked_findings import Findings, Line, in_order, status
from fleetwatch.diagnosis.findings.seen_on import with_last_seen
from fleetwatch.diagnosis.findings.step_savings import of_finding, of_findings
from fleetwatch.diagnosis.findings.stopped import stopped
from fleetwatch.diagnosis.judgement.verdicts import NUMBER
from fleetwatch.diagnosis.models import WASTED_MS, CauseEntry, Finding, Said
from fleetwatch.figures import boundaries, engine
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.others_names import jobs_shown
from fleetwatch.figures.packed_spans import numbered
from fleetwatch.figures.selectors import Breakdown
from fleetwatch.figures.totals import EVERYTHING, Group, Scope, Totals
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import one_view, read_statement

# What causes explain: of jobs idle + stalled + underused (docs/ledger.md, invariant 7), and what no
# job holds.
CAUSED_STATES = ("idle", "stalled", "underused", *OF_STATES.values())
ENOUGH_ANSWERS = 20  # of people, before a cause's precision is told
FEW_JOBS = 2000  # whose findings are looked up faster than all of a period are read
OPEN = (Finding.Status.OPEN, Finding.Status.ACCEPTED, Finding.Status.SNOOZED)

_FINDINGS = read_statement("diagnosis/sql/findings.sql")


# what is wasted all the same where a job works, as far as its sensors tell, or nobody can tell
LEFT_OVER = f"{title(UNDETERMINED)}: {{}}"


@dataclass(frozen=True, slots=True)
class Primary:
    """A job's cause: the one of most of its waste; of a job that wastes nothing, of most of its
    time. Of several causes that one is the largest.
    """

    cause: str
    confidence: int
    wasted_ms: int
    held_ms: int

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.wasted_ms, self.held_ms, -NUMBER.get(self.cause, len(NUMBER))


@dataclass(frozen=True, slots=True)
class Precision:
    """What people said of a cause's findings, the last word of each counting; `share` None until
    ENOUGH_ANSWERS.
    """

    cause: str
    confirmed: int
    rejected: int

    @property
    def answers(self) -> int:
        return self.confirmed + self.rejected

    @property
    def share(self) -> float | None:
        return self.confirmed / self.answers if self.answers >= ENOUGH_ANSWERS else None


def wasted_by_cause(
    cause: str, interval: Interval, *, scope: Scope = EVERYTHING
) -> dict[int, Decimal]:
    """By the id of each job that lost time of the interval to this cause, what findings are of,
    the dollars that it wasted by it: certain and probable, as in every headline.
    """
    spans = engine.read(CauseTime(cause=cause), interval, scope=scope)
    lines = cause_columns.lines(spans, by_job=True)
    return {
        each.job_id: each.totals.wasted_usd
        for each in lines.caused()
        if each.wasted_ms and each.job_id is not None
    }


def waste_by_cause(interval: Interval, *, scope: Scope = EVERYTHING) -> Breakdown:
    """Idle, stalled, underused and orphaned time by cause, most dollars first; the lines sum to
    costs.totals() of these states.

    What was not diagnosed yet is in the line "undetermined": of the hour that goes on, its newest
    minutes. Where the ledger took back what a cause had explained, nothing is told of hours whose
    ledger changed since.
    """
    with one_view():  # a cause is never told of time that the whole does not have yet
        whole = costs.totals(interval, scope=_of_states(scope, CAUSED_STATES))
        of_states = {
            cause: costs.totals(interval, scope=_of_states(scope, (state,)))
            for cause, state in OF_STATES.items()
        }
        groups, left = _by_cause(interval, scope, whole, of_states)
        if min(left.capacity_ms, *left.states.values(), *left.waste_ms.values()) < 0:
            groups, left = _by_cause(interval, scope, whole, of_states, is_current=True)
    if left.capacity_ms:
        groups.append(Group(UNDETERMINED, title(UNDETERMINED), left))
    groups.sort(
        key=lambda group: (
            -group.totals.wasted_usd,
            -group.totals.cost_usd,
            -group.totals.capacity_ms,
            group.key,
        )
    )
    return Breakdown(groups, whole)


def _by_cause(
    period: Interval,
    scope: Scope,
    whole: Totals,
    of_states: Mapping[str, Totals],
    *,
    is_current: bool = False,
) -> tuple[list[Group], Totals]:
    """A group for each cause that wasted time, those of whole states with them, and what is left
    of the whole.
    """
    spans = engine.read(CauseTime(is_current=is_current), period, scope=scope)
    of_jobs = cause_columns.lines(spans, by_job=False).caused()
    by_cause = {caused.cause: caused.totals for caused in of_jobs if caused.cause != UNDETERMINED}
    groups = [
        Group(cause, _label(cause), totals)
        for cause, totals in (*by_cause.items(), *of_states.items())
        if totals.capacity_ms
    ]
    return groups, rest(whole, [group.totals for group in groups])


def _label(cause: str) -> str:
    left_over = BY_CODE[cause].left_over if cause in BY_CODE else ""
    return LEFT_OVER.format(left_over) if left_over else title(cause)


def _of_states(scope: Scope, states: tuple[str, ...]) -> Scope:
    return replace(scope, states=states, shown=None, is_allocated=None)


def findings(
    interval: Interval,
    *,
    now: datetime,
    scope: Scope = EVERYTHING,
    cause: str | None = None,
    by: Collection[str] = (),
    step: str | None = None,
) -> Findings:
    """Every finding of a job with time in the period that could save anything; `by` groups, and by
    step where it is said, its time can be summed.
    """
    spans = engine.read(CauseTime(cause), interval, by=by, scope=scope, step=step)
    jobs, _ = numbered(spans.job)
    wanted = {
        "start_ms": interval.start_ms - HOUR_MS,
        "end_ms": interval.end_ms + HOUR_MS,
        "now": now,
        # what a node's trouble cost jobs is its own finding (findings/machine_findings.py)
        "causes": [None if name in OF_NODES else name for name in spans.labels],
        "job_ids": jobs if len(jobs) <= FEW_JOBS else None,
    }
    return in_order(cause_columns.lines(spans, by_job=True), fetched(_FINDINGS, wanted))


def with_jobs(lines: Iterable[Line], *, before: datetime) -> list[Line]:
    """The lines with their jobs read, each job with the team whose its time was just before that
    moment.
    """
    every = list(lines)
    jobs = Job.objects.select_related("team").in_bulk({line.finding.job_id for line in every})
    jobs_shown(with_outcomes(into_teams(jobs.values(), before=before)))
    # one whose job was deleted since is on no page
    shown = [line for line in every if line.finding.job_id in jobs]
    _join([line.finding for line in shown], jobs)
    keys = [(line.finding.its_job.pk, line.finding.cause) for line in shown]
    gpus = _gpus(keys)
    idle = stopped(jobs.keys())
    others = alternatives(keys)
    return [
        replace(line, gpus=gpus[key], may_work=key not in idle, alternatives=others.get(key, ()))
        for line, key in zip(with_last_seen(shown), keys, strict=True)
    ]


def _join(findings: Sequence[Finding], jobs: Mapping[int | None, Job]) -> None:
    """The findings with their jobs, and whom they are given to."""
    people = User.objects.in_bulk({finding.assignee_id for finding in findings} - {None})
    for finding in findings:
        finding.job = jobs[finding.job_id]
        finding.assignee = people.get(finding.assignee_id)
    with_assignees(findings)


def _gpus(keys: Collection[Key]) -> Counter[Key]:
    """How many GPUs each finding affected."""
    rows = CauseEntry.objects.filter(
        job__in={job_id for job_id, _ in keys}, cause__in={cause for _, cause in keys}
    )
    by_key = rows.order_by().values_list("job_id", "cause")
    counted = by_key.annotate(gpus=Count("gpu", distinct=True))
    return Counter({(job_id, cause): gpus for job_id, cause, gpus in counted})


def line_of(finding: Finding, interval: Interval, *, now: datetime) -> Line:
    """One finding in the period, with zeros where it has no time in it."""
    job = finding.its_job
    spans = engine.read(CauseTime(finding.cause), interval, scope=Scope(job=job.key))
    whole = cause_columns.lines(spans, by_job=True)
    own = of_finding(whole, finding)
    [caused] = own.caused() or [nothing(job.pk, finding.cause)]
    at_most = whole.whole().saving if finding.step_saved_ms else None
    return Line(finding, caused, status(finding, now), at_most=at_most)


def primary_causes(
    interval: Interval, *, scope: Scope = EVERYTHING, job_ids: Sequence[int] | None = None
) -> dict[int, tuple[Primary, Saving]]:
    """Why each job (of these, where some are given) wastes, and what its findings could save in the
    period.

    Jobs of which nothing was diagnosed are left out.
    """
    spans = engine.read(CauseTime(job_ids=job_ids), interval, scope=scope)
    lines = of_findings(cause_columns.lines(spans, by_job=True)).caused()
    by_job = groupby(lines, key=attrgetter("job_id"))  # as they stand
    return {job_id: _primary(list(several)) for job_id, several in by_job}


def caused_of(job: Job, interval: Interval) -> list[Caused]:
    """What each cause took of the job in the period."""
    spans = engine.read(CauseTime(), interval, scope=Scope(job=job.key))
    return cause_columns.lines(spans, by_job=True).caused()


def primary(several: Iterable[Caused]) -> Primary:
    """The cause that the job wastes by, of those that took any of its time: at least one."""
    causes = [
        Primary(each.cause, each.confidence, each.wasted_ms, each.held_ms) for each in several
    ]
    return max(causes, key=attrgetter("rank"))


def _primary(several: Sequence[Caused]) -> tuple[Primary, Saving]:
    saving = total(each for each in several if each.cause not in UNFIT).saving
    return primary(several), saving


def causes_of(job_ids: Collection[int], interval: Interval) -> dict[int, Primary]:
    """Why each of a few jobs wastes, without dollars; jobs of which nothing was diagnosed are left
    out.
    """
    whole = boundaries.outward(interval, zone())
    rows = (
        CauseEntry.objects.filter(job__in=job_ids, start__gte=whole.start, start__lt=whole.end)
        .values_list("job_id", "cause")
        .annotate(sure=Max("confidence"), wasted=Sum(WASTED_MS), held=Sum("held_ms"))
        .order_by("job_id")
    )
    return {
        job_id: max((Primary(*facts) for _, *facts in several), key=attrgetter("rank"))
        for job_id, several in groupby(rows, key=itemgetter(0))
    }


def history(*findings: Finding) -> list[Said]:
    """What was said of the findings, the newest first, by whom the reader may know."""
    of = Said.objects.filter(finding__in=findings).select_related("by", "finding")
    return with_deciders(list(of.order_by("-at", "-pk")))


def precision() -> dict[str, Precision]:
    """Per cause what people confirmed and rejected: of each finding the last answer counts. None
    to a reader who does not see everything: it counts others' findings.
    """
    if narrowed() is not None:
        return {}
    answers = (
        Said.objects.filter(kind__in=(Said.Kind.CONFIRMED, Said.Kind.REJECTED))
        .order_by("finding_id", "-at", "-pk")
        .distinct("finding_id")
        .values_list("finding__cause", "kind")
    )
    counts = Counter(answers)
    return {
        cause: Precision(
            cause, counts[cause, Said.Kind.CONFIRMED], counts[cause, Said.Kind.REJECTED]
        )
        for cause, _ in counts
    }
