"""Findings of jobs, and of machines and the queue, as one list that is narrowed and summed as one;
and one of them with what it rests on and what to do.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property

import numpy as np

from fleetwatch.accounts.colleagues import reachable
from fleetwatch.accounts.models import User
from fleetwatch.accounts.visibility import narrowed, sight
from fleetwatch.costs.held import held_interval
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause_columns import Lines
from fleetwatch.diagnosis.cause_totals import Caused, Saving, together, total
from fleetwatch.diagnosis.causes import OF_CAPACITY, OF_STATES
from fleetwatch.diagnosis.findings import machine_facts, machine_findings
from fleetwatch.diagnosis.findings.advice import Advice, advise
from fleetwatch.diagnosis.findings.deciders import with_assignees
from fleetwatch.diagnosis.findings.evidence import Evidence, evidence, facts_of
from fleetwatch.diagnosis.findings.exempt import Exemption, exemptions
from fleetwatch.diagnosis.findings.mended import mended
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT, Findings, Line
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.group_names import ids_of, lines_of
from fleetwatch.figures.packed_spans import numbered
from fleetwatch.figures.totals import EVERYTHING, Scope, Totals
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import is_visible, visible
from fleetwatch.lib.intervals import Interval

RECOVERABLE = ("open", "snoozed")  # how findings stand whose savings are told as recoverable
AGREED = ("dismissed", EXEMPT)  # of which people said that they are no waste
UNDECIDED = ("open", "snoozed", "accepted")
MAX_ID = 2**62
BY_CAUSE = "cause"  # a kind of group that the ledger has not


@dataclass(frozen=True, slots=True)
class Which:
    """What findings are asked for beside a scope; None = any.

    `assignee` "" = given to nobody. A kind and a name are of jobs alone, and a node is of no
    cluster.
    """

    cause: str | None = None
    assignee: str | None = None
    kind: str | None = None
    cluster: str | None = None
    job_name: str | None = None  # exactly; of others' jobs names are not told, nor asked for
    state: str | None = None  # with time wasted in that state


@dataclass(frozen=True)
class Inbox:
    """Findings with time in a period: those of jobs, and those of places, which are nodes and
    clusters' queues.
    """

    of_jobs: Findings
    of_places: Sequence[Line]

    def of_status(self, *statuses: str) -> "Inbox":
        """Those that stand so now."""
        places = [line for line in self.of_places if line.status in statuses]
        return Inbox(self.of_jobs.of_status(*statuses), places)

    def assigned(self, assignee_id: int | None) -> "Inbox":
        """Those given to that user; None = to nobody."""
        places = [line for line in self.of_places if line.finding.assignee_id == assignee_id]
        return Inbox(self.of_jobs.assigned(assignee_id), places)

    def counts(self) -> Counter[str]:
        """How many by status."""
        return self.of_jobs.counts() + Counter(line.status for line in self.of_places)

    def saving(self, *statuses: str) -> Saving:
        """What those that stand so could save: of places those whose time is a part of what was
        wasted, as jobs' is.
        """
        return self._wasted(statuses).saving

    def wasted_usd(self, *statuses: str) -> Decimal:
        """Dollars that the same findings explain, whatever their tier."""
        return self._wasted(statuses).wasted_usd

    @property
    def agreed(self) -> Totals:
        """What jobs wasted that people agreed is no waste."""
        return total(self._jobs_caused(AGREED)).totals

    @property
    def agreed_usd(self) -> Decimal:
        """Dollars of it, certain and probable."""
        return self.agreed.wasted_usd

    @cached_property
    def _agreed_lines(self) -> Lines:
        return self.of_jobs.of_status(*AGREED).lines

    def agreed_causes(self) -> dict[str, Totals]:
        """The same by cause."""
        return {each.cause: each.totals for each in _by_cause(self._agreed_lines)}

    def agreed_jobs(self) -> dict[str, Decimal]:
        """Dollars of the same by the job's key."""
        usd: dict[int, Decimal] = defaultdict(Decimal)
        for each in self._agreed_lines.caused():
            usd[each.job_id or 0] += each.totals.wasted_usd
        keys = Job.objects.filter(pk__in=list(usd)).values_list("pk", "key") if usd else ()
        return {key: usd[pk] for pk, key in keys}

    @cached_property
    def _by_status(self) -> Mapping[str, Caused]:
        """Of those of jobs: asked several times of one inbox."""
        return self.of_jobs.caused()

    def _jobs_caused(self, statuses: Collection[str]) -> list[Caused]:
        return [caused for status, caused in self._by_status.items() if status in statuses]

    def _wasted(self, statuses: Collection[str]) -> Caused:
        of_places = self._of_places(statuses, is_capacity=False)
        return total([*self._jobs_caused(statuses), *of_places])

    def capacity(self) -> Saving:
        """What those of own lines of the ledger could bring back that nobody decided about
        otherwise: never added to what was wasted.
        """
        return total(self._of_places(UNDECIDED, is_capacity=True)).saving

    @property
    def has_example_rates(self) -> bool:
        """Whether dollars of it are by list prices."""
        places = (line.caused for line in self.of_places)
        return any(each.has_example_rates for each in (*places, *self._by_status.values()))

    def _of_places(self, statuses: Collection[str], *, is_capacity: bool) -> list[Caused]:
        return [
            line.caused
            for line in self.of_places
            if line.status in statuses and (line.finding.cause in OF_CAPACITY) == is_capacity
        ]


ANY = Which()


def inbox(
    interval: Interval, *, now: datetime, scope: Scope = EVERYTHING, which: Which = ANY
) -> Inbox:
    """Every finding of the scope with time in the period, of any status: of places none where a
    job, user, team or the like is asked for, for they are nobody's, nor to a reader who does not
    see everything. What is exempt now stands as such.
    """
    of_jobs = as_they_stand(
        selectors.findings(interval, now=now, scope=scope, cause=which.cause), now
    )
    every = Inbox(of_jobs, _of_places(interval, now=now, scope=scope, cause=which.cause))
    if which.assignee is not None:
        every = every.assigned(_user_id(which.assignee))
    return Inbox(
        _of_jobs_asked_for(every.of_jobs, which),
        [line for line in every.of_places if _is_asked_for(line, which)],
    )


def _of_places(interval: Interval, *, now: datetime, scope: Scope, cause: str | None) -> list[Line]:
    if scope != Scope(node=scope.node) or narrowed() is not None:
        return []
    return machine_findings.findings(interval, now=now, cause=cause, node=scope.node)


def recoverable_of_places(
    interval: Interval, *, now: datetime, scope: Scope, cause: str | None = None
) -> Saving:
    """What findings of machines could save of what was wasted: beside `recoverable_by`, which has
    jobs' alone, the rest of what the inbox says.
    """
    places = _of_places(interval, now=now, scope=scope, cause=cause)
    return together(
        line.caused.saving
        for line in places
        if line.status in RECOVERABLE and line.finding.cause not in OF_CAPACITY
    )


def decisions_by_job(keys: Sequence[str], now: datetime) -> dict[str, set[str]]:
    """By the job's key how its findings stand, as far as the reader sees them: what is open, and
    exempt now, as such.
    """
    decided: dict[str, set[str]] = defaultdict(set)
    findings = Finding.objects.filter(job__in=visible(Job.objects.filter(key__in=keys)))
    rows = list(findings.values_list("job__key", "status", "job", "cause"))
    waiting = [(pk, cause) for _, status, pk, cause in rows if status == Finding.Status.OPEN]
    exempted = exemptions(waiting, now) if waiting else {}
    for key, status, pk, cause in rows:
        is_exempt = status == Finding.Status.OPEN and (pk, cause) in exempted
        decided[key].add(EXEMPT if is_exempt else status)
    return decided


@dataclass(frozen=True, slots=True)
class Recoverable:
    """What findings of jobs could save that nobody decided about: by key of the groups that were
    asked for, as far as they have such, and of all others together; and beside it the dollars that
    they wasted of which people agreed that it is none.
    """

    by_key: Mapping[str, Saving]
    of_others: Saving
    agreed_by_key: Mapping[str, Decimal]
    agreed_of_others_usd: Decimal

    @property
    def in_all(self) -> Saving:
        return together([*self.by_key.values(), self.of_others])

    @property
    def agreed_usd(self) -> Decimal:
        """Dollars of all of it that people agreed is no waste."""
        return sum(self.agreed_by_key.values(), self.agreed_of_others_usd)


def recoverable_by(
    group_by: str,
    interval: Interval,
    *,
    keys: Collection[str],
    now: datetime,
    scope: Scope,
    cause: str | None = None,
) -> Recoverable:
    """Of these groups what findings of jobs (of one cause, where it is named) could save of their
    time that nobody decided about, and of all others.
    """
    every = as_they_stand(
        selectors.findings(interval, now=now, scope=scope, cause=cause, by=(group_by,)), now
    )
    groups = every.lines.spans.by[group_by]
    shown = ids_of(group_by, groups, groups.ids[np.unique(groups.at)].tolist(), keys)
    open_ones, others = _of_shown(every.of_status(*RECOVERABLE).lines, group_by, shown)
    agreed, agreed_others = _of_shown(every.of_status(*AGREED).lines, group_by, shown)
    return Recoverable(
        {key: caused.saving for key, caused in open_ones.items()},
        others.saving,
        {key: caused.totals.wasted_usd for key, caused in agreed.items()},
        agreed_others.totals.wasted_usd,
    )


def _of_shown(
    lines: Lines, group_by: str, shown: Mapping[int, str]
) -> tuple[dict[str, Caused], Caused]:
    """What the lines took of each group that is shown (by id its key) and has any, and of all
    others.
    """
    ids = sorted(shown)
    places, of_groups = lines.of_groups(group_by, np.array(ids, dtype=np.int64))
    every = of_groups.caused() if len(places) else []
    by_place = dict(zip(places.tolist(), every, strict=True))
    others = by_place.pop(len(ids), total([]))
    return {shown[ids[at]]: caused for at, caused in by_place.items()}, others


def agreed_usd(interval: Interval, *, now: datetime, scope: Scope = EVERYTHING) -> Decimal:
    """Dollars of what jobs of the scope wasted (certain and probable) that people agreed is no
    waste.
    """
    every = selectors.findings(interval, now=now, scope=scope)
    return Inbox(as_they_stand(every, now), ()).agreed_usd


def agreed_causes(interval: Interval, *, now: datetime) -> dict[str, Totals]:
    """The same of all jobs by cause, with its time."""
    return Inbox(as_they_stand(selectors.findings(interval, now=now), now), ()).agreed_causes()


def agreed_by(
    groups: Sequence[str],
    interval: Interval,
    *,
    now: datetime,
    scope: Scope = EVERYTHING,
    cause: str | None = None,
) -> dict[str, dict[str, Decimal]]:
    """Of each kind of group, by key, the dollars of what its jobs wasted (certain and probable, by
    one cause where it is named) that people agreed is no waste. Causes are a kind too.
    """
    of_ledger = tuple(each for each in groups if each != BY_CAUSE)
    every = selectors.findings(interval, now=now, scope=scope, cause=cause, by=of_ledger)
    agreed = as_they_stand(every, now).of_status(*AGREED)
    if not len(agreed):
        return {group_by: {} for group_by in groups}
    return {
        group_by: {
            key: caused.totals.wasted_usd for key, caused in _by_key(agreed.lines, group_by).items()
        }
        for group_by in groups
    }


def _by_key(lines: Lines, group_by: str) -> dict[str, Caused]:
    """What the lines took of each group, by its key."""
    if group_by == BY_CAUSE:
        return {each.cause: each for each in _by_cause(lines)}
    groups = lines.spans.by[group_by]
    ids = groups.ids[np.unique(groups.at)].tolist()
    named = lines_of(group_by, groups, ids)
    of_groups = lines.by_group(group_by).caused() if ids else []
    return {named[pk][0]: caused for pk, caused in zip(ids, of_groups, strict=True)}


def savings_of(ids: Collection[int], interval: Interval, *, now: datetime) -> dict[int, Saving]:
    """By the id of each of these findings with time in the period, as far as the reader sees them,
    what it could save; no other finding's time is read but that of places.
    """
    subjects = Finding.objects.filter(pk__in=ids).values_list("job", flat=True)
    job_ids = tuple(sorted({pk for pk in subjects if pk is not None}))
    lines: list[Line] = []
    if job_ids:
        every = selectors.findings(interval, now=now, scope=Scope(jobs=job_ids))
        lines += every.at(np.flatnonzero(np.isin(every.pk, list(ids))))[:]
    if None in subjects:
        lines += _of_places(interval, now=now, scope=EVERYTHING, cause=None)
    return {line.finding.pk: line.caused.saving for line in lines if line.finding.pk in ids}


def recoverable_by_cause(interval: Interval, *, now: datetime) -> dict[str, Saving]:
    """By cause what findings of jobs could save that nobody decided about."""
    every = selectors.findings(interval, now=now)
    lines = as_they_stand(every, now).of_status(*RECOVERABLE).lines
    return {each.cause: each.saving for each in _by_cause(lines)}


def _by_cause(lines: Lines) -> list[Caused]:
    """What the lines took of each cause."""
    causes, line = numbered(lines.cause[lines.line])
    if not len(causes):
        return []
    return replace(lines, job=np.zeros_like(causes), cause=causes, line=line).caused()


def as_they_stand(of_jobs: Findings, now: datetime) -> Findings:
    """The same, of which those that an operator approved stand as exempt, and as fixed those that a
    later change of the job has settled.
    """
    if not len(of_jobs):
        return of_jobs
    keys = of_jobs.keys()
    settled = of_jobs.standing(Finding.Status.FIXED, mended(keys))
    return settled.standing(EXEMPT, exemptions(keys, now))


def _user_id(name: str) -> int | None:
    """The id of the user of that name: None for "", 0 where nobody whom the reader may know has
    it.
    """
    ids = reachable(User.objects.filter(username=name)).values_list("pk", flat=True)
    return ids.first() or 0 if name else None


def _of_jobs_asked_for(findings: Findings, which: Which) -> Findings:
    facts = {"kind": which.kind, "cluster": which.cluster, "name": which.job_name}
    named = {name: value for name, value in facts.items() if value is not None}
    of_jobs = findings.of_jobs(**named) if named else findings
    return of_jobs if which.state is None else of_jobs.wasted_in(which.state)


def _is_asked_for(line: Line, which: Which) -> bool:
    """Orphaned time is a state of its own, though its dollars stand where those of idle do."""
    is_of_jobs = which.kind is not None or which.job_name is not None
    if is_of_jobs or which.cluster not in (None, line.finding.cluster):
        return False
    own = OF_STATES.get(line.finding.cause)
    if which.state is None or own:
        return which.state in (None, own)
    return line.caused.wasted_in(which.state)


def finding(number: int) -> Finding | None:
    """The finding of that number, with what it is of; None where there is none that the reader
    sees.
    """
    rows = Finding.objects.select_related("job", "job__team", "node", "assignee")
    finding = rows.filter(pk=number).first() if number < MAX_ID else None
    if finding is None or not _is_visible(finding):
        return None
    with_assignees([finding])
    return finding


def seen_ids(numbers: Sequence[int]) -> list[int]:
    """Those of the numbers, in their order, that findings have which the reader sees; to who sees
    everything all of them.
    """
    if sight() is None:
        return list(numbers)
    seen = Finding.objects.filter(pk__in=numbers, job__in=visible(Job.objects.all()))
    ids = set(seen.values_list("pk", flat=True))
    return [number for number in numbers if number in ids]


def ids_by_job(keys: Sequence[str]) -> dict[tuple[str, str], int]:
    """The numbers of the jobs' findings, by the job's key and the cause, as far as the reader sees
    them.
    """
    rows = Finding.objects.filter(job__in=visible(Job.objects.filter(key__in=keys)))
    return {(key, cause): pk for pk, key, cause in rows.values_list("pk", "job__key", "cause")}


def _is_visible(finding: Finding) -> bool:
    """Who does not see everything sees no finding of a machine or a queue."""
    return is_visible(finding.job) if finding.job is not None else sight() is None


def whole(finding: Finding) -> Interval | None:
    """The time that it is shown over unless another is asked for: when its job held GPUs (None:
    never), or all that a node's or a queue's took.
    """
    return held_interval(finding.job) if finding.job else machine_findings.whole(finding)


def longer(finding: Finding, interval: Interval) -> Interval | None:
    """All of its time, with the interval, so that a part of an hour at its end is the same in both
    and the whole is never less; None where the interval has all of it, or its job never held a GPU.
    """
    every = whole(finding)
    if every is None or (interval.start <= every.start and every.end <= interval.end):
        return None
    return Interval(min(every.start, interval.start), max(every.end, interval.end))


def in_all(finding: Finding, interval: Interval, *, now: datetime) -> Line | None:
    """What it took in all; None where the interval has all of it."""
    every = longer(finding, interval)
    if every is None:
        return None
    if finding.job is None:
        return machine_findings.line_of(finding, every, now=now)
    return selectors.line_of(finding, every, now=now)


@dataclass(frozen=True, slots=True)
class Explained:
    """A finding in a period; `evidence` None: it is judged without a window, or its telemetry is no
    longer kept.
    """

    line: Line
    evidence: Evidence | None
    advice: Advice
    exemption: Exemption | None = None  # that an operator approved, where nobody decided


def explained(finding: Finding, interval: Interval, *, now: datetime) -> Explained:
    """One finding in the period, with zeros where it has no time in it."""
    job = finding.job
    if job is None:
        line = machine_findings.line_of(finding, interval, now=now)
        facts = machine_facts.facts(finding, interval)
        return Explained(line, None, advise(finding.cause, facts))
    seen = _measured(finding)
    lines = [selectors.line_of(finding, interval, now=now)]
    [line] = selectors.with_jobs(lines, before=interval.end)
    counts = {"gpus": max(line.gpus, 1), "affected_gpus": line.gpus}
    facts = seen.facts if seen else facts_of(job, None, **counts, may_work=line.may_work)
    line, exemption = _as_it_stands(line, now)
    return Explained(line, seen, advise(finding.cause, facts), exemption)


def _measured(finding: Finding) -> Evidence | None:
    """Its evidence; the finding's step is priced as that measures it, which its advice says too."""
    seen = evidence(finding.its_job, finding.cause)
    if seen is not None:
        for name, ms in advise(finding.cause, seen.facts).step_worth.items():
            setattr(finding, name, ms)
    return seen


def _as_it_stands(line: Line, now: datetime) -> tuple[Line, Exemption | None]:
    """As `as_they_stand` has it, and by which exemption."""
    if line.status != Finding.Status.OPEN:
        return line, None
    key = (line.finding.its_job.pk, line.finding.cause)
    if mended([key]):
        return replace(line, status=Finding.Status.FIXED), None
    exemption = exemptions([key], now).get(key)
    return (replace(line, status=EXEMPT) if exemption else line), exemption
