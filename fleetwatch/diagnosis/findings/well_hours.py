"""Hours in which a job worked well: what a finding is drawn beside."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Extract

from fleetwatch.diagnosis.causes import COMPUTES_WELL, WELL_CODES
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import runs_like
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

RUNS = 8  # earlier ones, asked too
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
    kinds = list(_kinds(job, gpu, from_ms(last_ms) - LOOKS_BACK))
    for in_finding in (False, True):
        for well, whose in kinds:
            yield from _newest(well, whose, in_finding)


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


def _newest(well: QuerySet[CauseEntry], whose: str, in_finding: bool) -> Iterator[WellHour]:
    about_it = Finding.objects.filter(
        job=OuterRef("job"), first_ms__lt=OuterRef("start_ms") + HOUR_MS
    ).filter(last_ms__gt=OuterRef("start_ms"))
    rows = (
        well.filter(cells=ALL_CELLS)
        .alias(start_ms=Extract("start", "epoch", tzinfo=UTC) * 1000)
        .filter(Exists(about_it) if in_finding else ~Exists(about_it))
        .select_related("gpu__node", "gpu__model", "job")
    )
    for entry in rows.order_by("-start", "gpu_id")[:1]:
        yield WellHour(entry.gpu, to_ms(entry.start), entry.job, whose, in_finding)


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
