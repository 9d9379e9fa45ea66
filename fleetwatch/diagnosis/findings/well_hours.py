"""Hours in which a job worked well: what a finding is drawn beside."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from fleetwatch.diagnosis.causes import COMPUTES_WELL, WELL_CODES
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import runs_like
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.any_of import any_id
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.spans import Span

RUNS = 8  # earlier ones, asked too
LOOKED_AT = 64  # hours of a kind, the newest: among them one without a finding is looked for
ALIKE = 32  # jobs of the same owner or name, the newest
NODES = 32  # with GPUs of the model: a busy fleet has a good hour on any few of them
LOOKS_BACK = timedelta(days=30)  # of other jobs
ALL_CELLS = 0b1111_1111_1111  # of a clock hour

OWN = "own"
EARLIER = "earlier"
ALIKE_JOB = "alike"
SAME_MODEL = "model"


@dataclass(frozen=True, slots=True)
class WellHour:
    """A clock hour of one GPU and job, all of which is called well; `whose` is how near that job
    is to the one that was asked about: OWN, EARLIER, ALIKE_JOB or SAME_MODEL. `in_finding`: the
    job has a finding about that time, so that the hour is the GPU's alone.
    """

    gpu: GPU
    start_ms: int
    job: Job
    whose: str
    in_finding: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is of the job itself or of an earlier run of it."""
        return self.whose in (OWN, EARLIER)


def well_hours(job: Job, gpu: GPU, *, last_ms: int) -> Iterator[WellHour]:
    """The newest of each kind, the nearest kind first: of the job itself, of the earlier runs of
    its name and owner; on GPUs like this one of other jobs of its name or its owner, then of any
    job; then of the former on other GPUs. After these the same of jobs that have a finding about
    that time.

    Asked one after the other, as far as they are wanted. Of other jobs since 30 days before
    `last_ms`; of any job's it may be one that the reader does not see. A service, which
    waits for requests, is compared with services on GPUs like this one alone.
    """
    in_findings: list[WellHour] = []
    for well, whose in _kinds(job, gpu, from_ms(last_ms) - LOOKS_BACK):
        hours = _newest(well, whose)
        yield from [hour for hour in hours if not hour.in_finding][:1]
        in_findings += [hour for hour in hours if hour.in_finding][:1]
    yield from in_findings


def _kinds(job: Job, gpu: GPU, since: datetime) -> Iterator[tuple[QuerySet[CauseEntry], str]]:
    well = CauseEntry.objects.filter(cause__in=WELL_CODES)
    yield well.filter(job=job), OWN
    yield well.filter(job__in=runs_like(job, limit=RUNS)), EARLIER
    works = CauseEntry.objects.filter(cause__in=COMPUTES_WELL, start__gte=since).exclude(job=job)
    if job.kind == Job.Kind.SERVICE:
        works = works.filter(job__kind=job.kind, gpu__model=gpu.model_id)
    of_alike = works.filter(job__in=_alike(job, since))
    if gpu.model_id is not None:
        yield of_alike.filter(gpu__model=gpu.model_id), ALIKE_JOB
        yield works.filter(node__in=_nodes_like(gpu), gpu__model=gpu.model_id), SAME_MODEL
    yield of_alike, ALIKE_JOB


def _newest(well: QuerySet[CauseEntry], whose: str) -> list[WellHour]:
    rows = well.filter(cells=ALL_CELLS).select_related("gpu__node", "gpu__model", "job")
    newest = list(rows.order_by("-start", "gpu_id")[:LOOKED_AT])
    spans = _findings_of({entry.job_id for entry in newest})
    return [_hour(entry, whose, spans[entry.job_id]) for entry in newest]


def _hour(entry: CauseEntry, whose: str, findings: Iterable[Span]) -> WellHour:
    start_ms = to_ms(entry.start)
    in_finding = any(
        first_ms < start_ms + HOUR_MS and last_ms > start_ms for first_ms, last_ms in findings
    )
    return WellHour(entry.gpu, start_ms, entry.job, whose, in_finding)


def _findings_of(job_ids: Collection[int]) -> Mapping[int, Sequence[Span]]:
    """By job from when to when each of its findings is."""
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    rows = Finding.objects.filter(job__in=any_id(job_ids)) if job_ids else Finding.objects.none()
    for job_id, first_ms, last_ms in rows.values_list("job", "first_ms", "last_ms"):
        spans[job_id].append((first_ms, last_ms))
    return spans


def _alike(job: Job, since: datetime) -> Iterable[Job]:
    """The newest jobs of its name or its owner that the reader sees."""
    same = Q(pk__in=())
    if job.user:
        same |= Q(user=job.user, scheduler=job.scheduler, cluster=job.cluster)
    if job.name:
        same |= Q(name=job.name)
    several = visible(Job.objects.filter(same, start_ms__gte=to_ms(since)).exclude(pk=job.pk))
    return list(several.order_by("-start_ms", "-pk")[:ALIKE])


def _nodes_like(gpu: GPU) -> list[int]:
    """The GPU's node and some others with GPUs of its model."""
    others = GPU.objects.filter(model=gpu.model_id).exclude(node=gpu.node_id)
    ids = others.order_by("-node_id").values_list("node_id", flat=True).distinct()
    return [gpu.node_id, *ids[:NODES]]
