"""Rows of the lists: facts of a model beside its figures."""

from collections.abc import Mapping, Sequence

from fleetwatch.api.answer_types import Joined, gpu_hours
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.causes import UNDETERMINED
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.queues import Queue
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures.pricing import usd
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import JobSource, PendingJobs, wait_ms
from fleetwatch.ledger.selectors import idle_power
from fleetwatch.telemetry.selectors import Drain

Why = Mapping[int, tuple[Primary, Saving]]  # cause and savings of all its findings, by job's id


def _cause(primary: Primary | None, evidence: Sequence[str]) -> Joined:
    """Why a job wastes; where nothing was diagnosed nobody knows: said, and not left out."""
    if primary is None or primary.cause == UNDETERMINED:
        return Joined(key=UNDETERMINED, confidence=None, evidence=())
    confidence = CONFIDENCES[primary.confidence] or None
    return Joined(key=primary.cause, confidence=confidence, evidence=evidence)


def job_row(job: Job, figures: Joined, why: Why, evidence: Sequence[str] = ()) -> Joined:
    """`why`: of jobs by their ids, where something was diagnosed; `evidence` of the first cause."""
    primary, saving = why.get(job.pk, (None, None))
    wait = wait_ms(job)
    return Joined(
        figures,
        job,
        wait_s=None if wait is None else wait / 1000,
        partition=_label(job, "partition"),
        qos=_label(job, "qos"),
        primary_cause=_cause(primary, evidence),
        savings_gpu_hours=saving and [gpu_hours(saving.low_ms), gpu_hours(saving.high_ms)],
        savings_usd=saving and [usd(saving.low_usd), usd(saving.high_usd)],
    )


def _label(job: Job, name: str) -> str | None:
    return str(job.labels[name]) if name in job.labels else None


def queue_rows(queues: Sequence[Queue], pending: Sequence[PendingJobs]) -> list[Joined]:
    """What agents tell of clusters' whole queues, then what accounting told of partitions' jobs
    that wait.
    """
    untold = dict.fromkeys(("partition", "jobs", "since_ms"))
    return [
        *(Joined(queue, told_by="agent", **untold) for queue in queues),
        *(Joined(partition, told_by="accounting", told_ms=None) for partition in pending),
    ]


def node_row(
    node: Node, figures: Joined, sources: Sequence[JobSource], drain: Drain | None
) -> Joined:
    """`drain`: None = the node takes jobs."""
    count = sum(
        gpu.parent_id is None and gpu.first_ms is not None and gpu.retired_ms is None
        for gpu in node.gpus.all()
    )
    return Joined(figures, node, sources=sources, drained=drain, gpu_count=count)


def idle_power_row(gpu: GPU) -> Joined | None:
    """What the GPU draws at idle and how that is known; None where it is not."""
    row = idle_power(gpu)
    if row is not None:
        return Joined(row, source="learned" if row.readings else "set")
    if gpu.model is None or gpu.model.idle_w is None:
        return None
    return Joined(watts=gpu.model.idle_w, source="model", readings=0, first_ms=None, last_ms=None)
