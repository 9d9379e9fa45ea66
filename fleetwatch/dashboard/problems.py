"""What is wrong with a node or a GPU: incidents that fire, its findings, and those of jobs that
wasted there, a line each.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils.text import capfirst

from fleetwatch.alerts.conditions import gpu_cannot_work
from fleetwatch.alerts.incidents import machine_incidents
from fleetwatch.alerts.incidents.dismissed_findings import causes_of
from fleetwatch.alerts.incidents.incident_history import again_after
from fleetwatch.alerts.incidents.incident_rows import IncidentRow, incident_rows
from fleetwatch.alerts.incidents.muting import muted_in_words
from fleetwatch.alerts.selectors import IncidentView
from fleetwatch.dashboard import incident_pages, slowed_gpus
from fleetwatch.dashboard.machine_pages import PlaceRow, row
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.cause_totals import Caused, Saving
from fleetwatch.diagnosis.causes import FAILURES, SLOWED
from fleetwatch.diagnosis.findings import clock_losses, inbox, machine_findings, noted_facts
from fleetwatch.diagnosis.findings.advice import Advice
from fleetwatch.diagnosis.findings.clock_losses import ClockLoss
from fleetwatch.diagnosis.findings.machine_episodes import Episodes, episodes
from fleetwatch.diagnosis.findings.machine_findings import Affected
from fleetwatch.diagnosis.findings.patterns import FRESH_MS
from fleetwatch.diagnosis.findings.ranked_findings import Findings, Line
from fleetwatch.diagnosis.findings.seen_on import Seen, seen_on
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.intervals import to_ms

MAX_OF_JOBS = 3  # findings of jobs; the savings inbox has them all

Link = tuple[str, str]  # what it is called, and its address
Thing = tuple[str, str]  # a job's key or a GPU's UUID, and what is the cause there


@dataclass(frozen=True, slots=True)
class Problem:
    """An incident (or several that fired at once), or a finding. `usd` None: dollars are not
    known; `saving` instead of them where they are a range; `until_ms` None while it goes on;
    `stopped_ms`: of an incident that stopped and is not over yet (of several: all) when it did.
    """

    kind: str  # of a finding
    title: str
    about: str
    address: str
    links: Sequence[Link]  # to the parts of several
    since_ms: int
    until_ms: int | None
    usd: Decimal | None
    stands: str = ""  # of an incident how it is called now, by its tab
    snoozed_until: datetime | None = None
    stopped_ms: int | None = None
    usd_per_hour: Decimal | None = None
    saving: Saving | None = None
    worth: str = ""  # what its dollars are, where they are none that it cost
    is_of_period: bool = False  # its dollars: else all so far
    total: Caused | None = None  # what it took in all, where it began before the period
    is_fault: bool = False  # a GPU can't work: what its head says
    is_capacity: bool = False  # found by diagnosis: time that could not work
    is_counted_above: bool = False  # its dollars are those of the fault's incident
    meanwhile: str = ""  # what still runs there, beside its step
    step: Step | None = None  # to do first
    again_after_ms: int | None = None  # it began again then or later: one before it was over
    episodes: Episodes | None = None  # where it began more than once
    of_what: Set[Thing] = frozenset()  # a finding of nothing else than an incident's is the same
    is_partly: bool = False  # it is also where an incident is of a part of that
    finding: "Problem | None" = None  # that of the same thing as the incident's
    clock_loss: ClockLoss | None = None  # of slowed GPUs, beside what the ledger counts


def of_node(node: Node, period: Period) -> Context:
    """The node's own and its GPUs', incidents first; then those of jobs that wasted there."""
    lines = machine_findings.findings(period.interval, now=period.now, node=node.name)
    losses = clock_losses.of_findings([line.finding for line in lines], period.interval)
    own = [
        *_of_machine(machine_incidents.of_node(node.name), period.now),
        *(
            replace(_of_finding(row(line), period), clock_loss=losses.get(line.finding.pk))
            for line in lines
        ),
    ]
    return _with_jobs(own, _Place(node, Scope(node=node.name), Q(node=node)), period)


def of_gpu(gpu: GPU, period: Period) -> Context:
    """The GPU's own, and of its node's findings what each took of this GPU; then those of jobs that
    wasted on it.
    """
    lines = machine_findings.findings(period.interval, now=period.now, node=gpu.node.name)
    own = [
        *_of_machine(machine_incidents.of_gpu(gpu.uuid), period.now),
        *(each for line in lines for each in _of_one_gpu(line, gpu, period)),
    ]
    which = Q(gpu__uuid=gpu.uuid) | Q(gpu__parent__uuid=gpu.uuid)
    return _with_jobs(own, _Place(gpu.node, Scope(gpu=gpu.uuid), which), period)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where jobs wasted: how figures are narrowed to it, and `which` rows of causes are of it."""

    node: Node
    scope: Scope
    which: Q


def _with_jobs(own: Sequence[Problem], place: _Place, period: Period) -> Context:
    """With the open findings of jobs that could have saved most there, and how many more are."""
    every = selectors.findings(period.interval, now=period.now, scope=place.scope)
    standing = inbox.as_they_stand(every, period.now)
    waiting = standing.of_status(Finding.Status.OPEN)
    return {
        "problems": _findings_in_incidents([*own, *_of_jobs(waiting, place, period)]),
        "agreed_usd": inbox.Inbox(standing, ()).agreed_usd,
        "more_findings": max(len(waiting) - MAX_OF_JOBS, 0),
    }


def _of_jobs(waiting: Findings, place: _Place, period: Period) -> list[Problem]:
    """The first of them, as far as they were seen there."""
    lines = selectors.with_jobs(waiting[:MAX_OF_JOBS], before=period.interval.end)
    seen = seen_on([(line.job.pk, line.finding.cause) for line in lines], place.which)
    return [
        _of_job(line, advice, seen[line.job.pk, line.finding.cause], place.node)
        for line, advice in zip(lines, noted_facts.advice_of(lines), strict=True)
        if (line.job.pk, line.finding.cause) in seen
    ]


def _findings_in_incidents(problems: Sequence[Problem]) -> list[Problem]:
    """A finding of the same thing as an incident stands in that one's row."""
    incidents = [each for each in problems if each.stands]
    pairs = [
        (incident.address, finding)
        for finding in problems
        if not finding.stands and finding.of_what
        for incident in incidents
        if _is_of(finding, incident)
    ]
    finding_of = dict(pairs)
    moved = {finding.address for _, finding in pairs}
    return [
        replace(each, finding=finding_of.get(each.address))
        for each in problems
        if each.address not in moved
    ]


def _is_of(finding: Problem, incident: Problem) -> bool:
    """Whether the incident is of the same; what slows a node's GPUs is one thing to mend, however
    many of them have an incident.
    """
    if finding.is_partly:
        return not finding.of_what.isdisjoint(incident.of_what)
    return finding.of_what <= incident.of_what


def _of_machine(which: Q, now: datetime) -> list[Problem]:
    """Incidents with what to do first (of several at once each one's page says it), and after which
    before it one began again.
    """
    rows = incident_rows(machine_incidents.going_on(which))
    alone = [each.first for each in rows if not each.is_group]
    again = again_after([each.incident for each in alone])
    steps = incident_pages.first_steps(alone, now)
    losses = slowed_gpus.losses([line for each in rows for line in each.lines])
    return [
        _of_incident(each, now, losses)
        if each.is_group
        else replace(
            _of_incident(each, now, losses),
            step=steps.get(each.first.incident.pk),
            again_after_ms=again.get(each.first.incident.pk),
        )
        for each in rows
    ]


def first_steps(uuids: Sequence[str], now: datetime) -> dict[str, Step | None]:
    """By the GPU that can't work what to do first."""
    which = Q(subject__in=uuids, rule__condition=gpu_cannot_work.CONDITION.name)
    views = machine_incidents.going_on(which)
    steps = incident_pages.first_steps(views, now)
    return {view.incident.subject: steps.get(view.incident.pk) for view in views}


def of_incidents(
    which: Q, now: datetime, most_usd: Mapping[str, Decimal] = MappingProxyType({})
) -> list[Problem]:
    """Those that fire; what befell GPUs of a node at once is one. `most_usd`: what those of a
    subject can have cost at most.
    """
    rows = incident_rows(machine_incidents.going_on(which))
    losses = slowed_gpus.losses([line for each in rows for line in each.lines])
    return [
        _at_most(_of_incident(each, now, losses), most_usd.get(each.first.breach.subject))
        for each in rows
    ]


def _at_most(problem: Problem, usd: Decimal | None) -> Problem:
    if usd is None or problem.usd is None:
        return problem
    return replace(problem, usd=min(problem.usd, usd))


def _of_incident(several: IncidentRow, now: datetime, losses: Mapping[int, ClockLoss]) -> Problem:
    addresses = [_address("incident", line.incident.pk) for line in several.lines]
    names = [line.breach.where for line in several.lines]
    incident = several.first.incident
    return Problem(
        kind="incident",
        stands=incident.stands(now),
        snoozed_until=incident.snoozed_until,
        stopped_ms=_stopped_ms(several),
        title=several.title if several.is_group else capfirst(several.title),
        about=" · ".join(filter(None, (several.what, _why(several)))),
        address=addresses[0],
        links=list(zip(names, addresses, strict=True)) if several.is_group else (),
        since_ms=several.since_ms,
        until_ms=None,
        usd=several.cost_usd,
        usd_per_hour=None if incident.note else several.usd_per_hour,
        is_fault=incident.rule.condition == gpu_cannot_work.CONDITION.name,
        of_what={thing for line in several.lines for thing in _things_of(line)},
        clock_loss=_clock_loss_of(several, losses),
    )


def _why(several: IncidentRow) -> str:
    incident = several.first.incident
    return muted_in_words(incident.muted) if incident.is_accepted else incident.note


def _stopped_ms(several: IncidentRow) -> int | None:
    if not all(line.incident.has_stopped for line in several.lines):
        return None
    return max(line.breach.until_ms for line in several.lines)


def _clock_loss_of(several: IncidentRow, losses: Mapping[int, ClockLoss]) -> ClockLoss | None:
    own = [losses[line.incident.pk] for line in several.lines if line.incident.pk in losses]
    return clock_losses.total(own) if own else None


def _things_of(view: IncidentView) -> Iterable[Thing]:
    breach = view.breach
    causes = causes_of(view.incident) if breach.kind == "job" else breach.labels.get("cause", ())
    return ((breach.subject, cause) for cause in causes)


def _of_finding(place: PlaceRow, period: Period) -> Problem:
    finding = place.finding
    began = _several(episodes(finding))
    gpus = place.line.gpus
    until_ms = machine_findings.over_since_ms(finding)
    is_slowed = finding.cause == SLOWED
    is_same = is_slowed or (until_ms is None and began is None)
    return Problem(
        kind=_kind(place),
        title=_title(place, until_ms),
        about=f"{gpus} GPU{'s'[: gpus - 1]} · {_worth(place)}",
        address=_address("finding", finding.pk),
        links=(),
        since_ms=finding.first_ms,
        until_ms=until_ms,
        **_dollars(place, place.line.caused),
        total=_total(place.finding, period),
        is_capacity=finding.cause in FAILURES,
        step=_step_of(place, until_ms),
        episodes=began,
        of_what=_gpus_of(place, period) if is_same else frozenset(),
        is_partly=is_slowed,
    )


def _gpus_of(place: PlaceRow, period: Period) -> Set[Thing]:
    affected = machine_findings.affected(place.finding, period.interval)
    return {(each.gpu.uuid, place.finding.cause) for each in affected}


def _of_one_gpu(line: Line, gpu: GPU, period: Period) -> Iterable[Problem]:
    """What the finding took of the GPU, or of the one that it is an instance of."""
    is_slowed = line.finding.cause == SLOWED
    for each in machine_findings.affected(line.finding, period.interval):
        if each.gpu.pk in (gpu.pk, gpu.parent_id):
            problem = _of_affected(line, each, period)
            yield _slowed(problem, each.gpu, period) if is_slowed else problem


def _of_affected(line: Line, each: Affected, period: Period) -> Problem:
    place = row(line)
    until_ms = machine_findings.over_on_gpu_ms(line.finding, each.gpu)
    began = _several(episodes(line.finding, each.gpu))
    is_same = until_ms is None and began is None
    return Problem(
        kind=_kind(place),
        title=_title(place, until_ms),
        about=_worth(place),
        address=_address("finding", line.finding.pk),
        links=(),
        since_ms=to_ms(each.first),
        until_ms=until_ms,
        **_dollars(place, each.caused),
        total=_total_of(line.finding, each.gpu, period),
        is_capacity=line.finding.cause in FAILURES,
        step=_step_of(place, until_ms),
        episodes=began,
        of_what={(each.gpu.uuid, line.finding.cause)} if is_same else frozenset(),
    )


def _slowed(problem: Problem, gpu: GPU, period: Period) -> Problem:
    """However often it began, with what the clock cost on the GPU."""
    [loss] = clock_losses.of_gpus([(gpu.pk, period.interval)])
    return replace(problem, of_what={(gpu.uuid, SLOWED)}, is_partly=True, clock_loss=loss)


def _of_job(line: Line, advice: Advice, seen: Seen, node: Node) -> Problem:
    """Of the place alone: since when it was seen there, and what could have been saved of that;
    with the first step of the inbox, where that ends no job: its incident says when to.
    """
    job = line.job
    # cells of five minutes reach beyond the job
    since_ms = max(seen[0], job.start_ms or seen[0])
    last_ms = max(since_ms, min(seen[1], job.end_ms or seen[1]))
    goes_on = job.end_ms is None and (node.last_ms or 0) < last_ms + FRESH_MS
    return Problem(
        kind="finding",
        title=advice.cause.title,
        about=f"{job.name or job.key} · {job.user or 'no owner'}",
        address=_address("finding", line.finding.pk),
        links=(),
        since_ms=since_ms,
        until_ms=None if goes_on else last_ms,
        usd=None,
        saving=line.caused.saving,
        worth=_saved_of_job(line),
        of_what={(job.key, line.finding.cause)},
        step=advice.first if advice.first.text else None,
        is_of_period=True,
    )


def _step_of(place: PlaceRow, until_ms: int | None) -> Step | None:
    """What a machine's finding says first; None where somebody decided that nothing is to do."""
    is_to_do = place.line.status in (Finding.Status.OPEN, Finding.Status.ACCEPTED)
    return _first_step(place.cause, is_over=until_ms is not None) if is_to_do else None


def _first_step(cause: Cause, *, is_over: bool) -> Step | None:
    """What its finding says first, without numbers and commands, which follow from its evidence."""
    if is_over and cause.when_over:
        step = cause.when_over[0]
        return Step(step.text, is_over=step.is_over)
    fixes = cause.fixes[1:] if is_over and cause.is_ended else cause.fixes
    return Step(fixes[0].text) if fixes else None


def _saved_of_job(line: Line) -> str:
    """What a job's dollars are: less than it wasted where they are of one step alone."""
    by = " by a limit on idle time alone" if line.finding.step_saved_ms else ""
    saved = "could be saved" if line.job.end_ms is None else "could have been saved"
    return f"of what it wasted or underused {saved}{by}"


def _dollars(place: PlaceRow, caused: Caused) -> dict[str, Any]:
    """Of the finding, or of one GPU's part of it: what could be saved where that is a range, else
    what its time cost.
    """
    saving = caused.saving if place.is_range else None
    return {"usd": caused.held_usd, "saving": saving, "is_of_period": True}


def _total(finding: Finding, period: Period) -> Caused | None:
    """What it took in all; None where the period has all of it."""
    total = inbox.in_all(finding, period.interval, now=period.now)
    return None if total is None else total.caused


def _total_of(finding: Finding, gpu: GPU, period: Period) -> Caused | None:
    """The same of one GPU."""
    every = inbox.longer(finding, period.interval)
    affected = machine_findings.affected(finding, every) if every else []
    return next((each.caused for each in affected if each.gpu.pk == gpu.pk), None)


def _several(began: Episodes | None) -> Episodes | None:
    return began if began is not None and began.count > 1 else None


def _kind(place: PlaceRow) -> str:
    """What it is called: a finding that was decided says how."""
    status = place.line.status
    return "finding" if status == "open" else f"finding, {status}"


def _title(place: PlaceRow, until_ms: int | None) -> str:
    """Its cause; in the past once it is over."""
    return (until_ms is not None and place.cause.machine.past) or place.cause.title


def _worth(place: PlaceRow) -> str:
    return place.cause.machine.worth or place.cause.machine.how


def _address(page: str, pk: int) -> str:
    return reverse(page, args=[pk])
