"""What idles now job by job: on which GPUs, the likely cause, and where it is decided about."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Q

from fleetwatch.alerts.incidents.incident_inbox import IS_ACCEPTED, OPEN_STATES
from fleetwatch.alerts.incidents.muting import is_acceptance
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import breach_of, decisions, visible_incidents
from fleetwatch.dashboard.idle import IdleGPU, idle_gpus
from fleetwatch.dashboard.idle_before import IdleBefore
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, OF_IDLE_JOBS, of_kind
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.pricing import sum_if_all_known
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval, from_ms, to_ms

CONDITIONS = ("job_idle", "gpu_idle")
# findings by which what idles is no waste
CLOSED = Q(status=Finding.Status.DISMISSED, cause__in=OF_IDLE_JOBS.values())
LISTED = 64  # GPUs of a job
FRESH_MS = 24 * HOUR_MS  # how late a finding of what idles now may be diagnosed


class Decided(NamedTuple):
    """Why a job idles, its finding, whether somebody closed that as no waste, and its incident; ""
    and None where there is none.
    """

    cause: str
    finding_id: int | None
    is_dismissed: bool
    incident: "OpenIncident | None"

    @property
    def is_accepted(self) -> bool:
        """Whether somebody said why it is no waste."""
        return self.is_dismissed or (self.incident is not None and bool(self.incident.accepted))


class OpenIncident(NamedTuple):
    """The incident of a job that goes on: since when, what to type against it ("": nothing), by
    whose word and until when it is no waste ("": by nobody's), and who snoozed it, until when and
    why ("": it is not).
    """

    pk: int
    since_ms: int
    command: str
    accepted: str
    snoozed: str
    row: Incident

    @property
    def cost_usd(self) -> Decimal | None:
        """What its GPUs that idle cost since then; None where one has no rate."""
        return breach_of(self.row).cost_usd


@dataclass(frozen=True, slots=True)
class IdleJob:
    """A job (of shared GPUs several) with its GPUs that idle now, those first that idle longest;
    `cause` is "" and finding and incident are None where there is none. `is_accepted`: somebody
    said why it is no waste, of each of the jobs.
    """

    jobs: Sequence[Job]
    gpus: Sequence[IdleGPU]
    cause: str
    finding_id: int | None
    is_accepted: bool
    incident: OpenIncident | None

    @property
    def command(self) -> str:
        """What ends it; "" where nothing is known to, or it is accepted or snoozed."""
        if self.incident is None or self.is_accepted or self.incident.snoozed:
            return ""
        return self.incident.command

    @property
    def spells_since_ms(self) -> int | None:
        """Since when it idles with pauses, as its incident counts it; None: without any."""
        return self._counted_ms if self._counts_more_ms >= MINUTE_MS else None

    @property
    def counted_since_ms(self) -> int | None:
        """From when on its incident counts it, where that is later; None where it is not."""
        return self._counted_ms if self._counts_more_ms <= -MINUTE_MS else None

    @property
    def _counted_ms(self) -> int:
        return self.incident.since_ms if self.incident else self.since_ms

    @property
    def _counts_more_ms(self) -> int:
        """By how much its incident began before it."""
        return self.since_ms - self._counted_ms

    @property
    def since_ms(self) -> int:
        return min(each.since_ms for each in self.gpus)

    @property
    def before(self) -> IdleBefore | None:
        """Of the GPU that idles longest."""
        return min(self.gpus, key=lambda each: each.since_ms).before

    @property
    def nodes(self) -> list[str]:
        return sorted({each.gpu.node.name for each in self.gpus})

    @property
    def listed(self) -> Sequence[IdleGPU]:
        return self.gpus[:LISTED]

    @property
    def left_off(self) -> int:
        """How many GPUs are not listed."""
        return len(self.gpus) - len(self.listed)

    @property
    def usd_per_hour(self) -> Decimal | None:
        """Of all its idle GPUs; None where one has no rate."""
        return sum_if_all_known(each.usd_per_hour for each in self.gpus)

    @property
    def cost_usd(self) -> Decimal | None:
        """Of all of them so far; None where one has no rate."""
        return sum_if_all_known(each.cost_usd for each in self.gpus)


def idle_jobs(gpus: Sequence[IdleGPU], now: datetime) -> list[IdleJob]:
    """The GPUs by whose they are, in the order in which the first of each comes."""
    by_jobs: dict[tuple[int, ...], list[IdleGPU]] = defaultdict(list)
    for each in gpus:
        by_jobs[tuple(sorted({job.pk for job in each.jobs}))].append(each)
    if not by_jobs:
        return []
    jobs = {job.pk: job for each in gpus for job in each.jobs}
    since = Interval(from_ms(min(each.since_ms for each in gpus)), now)
    decided = _decided(jobs, since)
    return [_line(job_ids, of_jobs, jobs, decided) for job_ids, of_jobs in by_jobs.items()]


def _line(
    job_ids: Sequence[int],
    gpus: Sequence[IdleGPU],
    jobs: Mapping[int, Job],
    decided: Mapping[int, Decided],
) -> IdleJob:
    every = [decided[pk] for pk in job_ids]
    undecided = [each for each in every if not each.is_accepted]
    of_jobs = undecided or every  # of those that are no waste nothing is to be done
    return IdleJob(
        jobs=[jobs[pk] for pk in job_ids],
        gpus=gpus,
        cause=next((each.cause for each in of_jobs if each.cause), ""),
        finding_id=_first(each.finding_id for each in of_jobs),
        is_accepted=not undecided,
        incident=next((each.incident for each in of_jobs if each.incident), None),
    )


def _decided(jobs: Mapping[int, Job], interval: Interval) -> dict[int, Decided]:
    """Of each job the cause that it was diagnosed with in the period."""
    causes = diagnosis.causes_of(jobs, interval)
    findings = _findings(jobs)
    incidents = open_incidents(jobs.values(), interval.end)
    decided = {}
    for pk, job in jobs.items():
        cause = causes[pk].cause if pk in causes else ""
        title = _title(cause, job) if cause else ""
        finding_id, is_dismissed = findings.get((pk, cause), (None, False))
        decided[pk] = Decided(title, finding_id, is_dismissed, incidents.get(job.key))
    return decided


def _title(cause: str, job: Job) -> str:
    return of_kind(cause, job.kind).title if cause in BY_CODE else cause


def _findings(job_ids: Collection[int]) -> dict[tuple[int, str], tuple[int, bool]]:
    """By job and cause the finding, and whether somebody closed it: what idles is no waste then. Of
    how the job worked before it says nothing of that.
    """
    rows = Finding.objects.filter(job__in=job_ids).annotate(is_closed=CLOSED)
    named = rows.values_list("job", "cause", "pk", "is_closed")
    return {(job_id, cause): (pk, is_closed) for job_id, cause, pk, is_closed in named}


def open_incidents(jobs: Iterable[Job], now: datetime) -> dict[str, OpenIncident]:
    """By job's key its open incident, as far as the reader sees it."""
    rows = visible_incidents().filter(
        subject__in=[job.key for job in jobs],
        state__in=OPEN_STATES,
        rule__condition__in=CONDITIONS,
    )
    by_key = {incident.subject: incident for incident in rows.order_by("-pk")}
    snoozed = [each.pk for each in by_key.values() if each.stands(now) == "snoozed"]
    texts = decisions(snoozed) if snoozed else {}
    return {key: _incident(incident, texts) for key, incident in by_key.items()}


def _incident(incident: Incident, snoozed: Mapping[int, str]) -> OpenIncident:
    return OpenIncident(
        incident.pk,
        incident.since_ms,
        incident.facts.get("command") or "",
        incident.muted if is_acceptance(incident.muted) else "",
        snoozed.get(incident.pk, ""),
        incident,
    )


@dataclass(frozen=True, slots=True)
class AcceptedIdle:
    """What idles now and somebody said why it is no waste; `usd_per_hour` of those of its GPUs that
    have a rate, as SpendingNow has it.
    """

    gpu_count: int
    usd_per_hour: Decimal
    job_ids: Set[int]


NOTHING_ACCEPTED = AcceptedIdle(0, Decimal(0), frozenset())


def accepted_idle(now: datetime) -> AcceptedIdle:
    """As far as the reader sees it; what idles is read where anything was accepted."""
    accepted = visible_incidents().filter(IS_ACCEPTED, rule__condition__in=CONDITIONS)
    closed = Finding.objects.filter(CLOSED, last_ms__gt=to_ms(now) - FRESH_MS)
    is_any = accepted.exists() or closed.exists()
    lines = idle_jobs(idle_gpus(now), now) if is_any else []
    kept = [line for line in lines if line.is_accepted]
    per_hour = [each.usd_per_hour for line in kept for each in line.gpus]
    return AcceptedIdle(
        gpu_count=len(per_hour),
        usd_per_hour=sum((usd for usd in per_hour if usd is not None), Decimal(0)),
        job_ids={job.pk for line in kept for job in line.jobs},
    )


def _first(ids: Iterable[int | None]) -> int | None:
    return next((each for each in ids if each is not None), None)
