"""Ground truth of the simulated fleet: who really did what on which GPU. Pure.

A function of the same schedule that history is drawn from, so that it needs no table and nothing of
it is ever stored where a diagnosis could read it. `manage.py demo_truth` prints it for judging.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.sources.simulated import Simulated
from agent.sources.simulated.schedule import SimulatedJob, jobs_between
from agent.sources.simulated.signal import Signal
from agent.sources.simulated.traits import IDLE
from agent.sources.simulated.troubles import faults_between, outages_between, waits_between
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.diagnosis.causes import gpu_fault, healthy, queue_or_scheduler

HEALTHY = healthy.CAUSE.code
GPU_FAULT = gpu_fault.CAUSE.code
UNOBSERVED = "unobserved"
QUEUE = queue_or_scheduler.CAUSE.code
OfGPU = tuple[int, str, int, int, str]  # GPU, the job's key, [start_ms, end_ms), cause


@dataclass(frozen=True, slots=True)
class Truth:
    """One GPU over [start_ms, end_ms): the cause that a perfect diagnosis would give. job_key "":
    nobody's.
    """

    node: str
    gpu: str
    job_key: str
    start_ms: int
    end_ms: int
    cause: str


def causes(job: SimulatedJob, gpu: int) -> list[tuple[int, int, str]]:
    """The job's life on that one of its GPUs as (start, end, cause).

    A job is healthy until it hangs, every other one what it is from its start; of one that leaves
    GPUs unused those that it uses are healthy.
    """
    signal = Signal(job)
    traits = signal.traits
    if job.archetype.hangs_after_s is None:
        is_well = signal.role(gpu) != IDLE and traits.busy_count < len(job.gpus)
        return [(job.start_ms, job.end_ms, HEALTHY if is_well else job.archetype.truth)]
    hang_ms = min(job.end_ms, job.start_ms + int((traits.warmup_s + traits.hangs_after_s) * 1000))
    spans = [(job.start_ms, hang_ms, HEALTHY), (hang_ms, job.end_ms, job.archetype.truth)]
    return [span for span in spans if span[0] < span[1]]


def truth_between(member: DemoNode, start_ms: int, end_ms: int) -> list[Truth]:
    """What was true of the node's GPUs in [start, end), by GPU and time.

    A fault or an outage stands beside what the job did.
    """
    simulated = Simulated(member.spec, node=member.name, start_ms=start_ms)
    uuids = [gpu.uuid for gpu in simulated.gpus()]
    spans = [
        Truth(member.name, uuids[gpu], key, max(begin, start_ms), min(end, end_ms), cause)
        for of_gpu in (_of_jobs, _of_troubles)
        for gpu, key, begin, end, cause in of_gpu(simulated, start_ms, end_ms)
    ]
    return sorted(
        (span for span in spans if span.start_ms < span.end_ms),
        key=lambda span: (uuids.index(span.gpu), span.start_ms, span.cause),
    )


def _of_jobs(simulated: Simulated, start_ms: int, end_ms: int) -> Iterator[OfGPU]:
    for job in jobs_between(simulated.spec, start_ms, end_ms):
        key = job.key if job.archetype.is_allocated else ""
        for gpu in job.gpus:
            yield from ((gpu, key, *span) for span in causes(job, gpu))


def _of_troubles(simulated: Simulated, start_ms: int, end_ms: int) -> Iterator[OfGPU]:
    spec = simulated.spec
    for begin, end in faults_between(spec, start_ms, end_ms):
        yield spec.faulty or 0, "", begin, end, GPU_FAULT
    for begin, end in waits_between(spec.cluster, start_ms, end_ms) if spec.queue else ():
        for gpu in range(spec.count):
            yield from ((gpu, "", *span, QUEUE) for span in _free(simulated, gpu, begin, end))
    for begin, end in outages_between(spec, start_ms, end_ms):
        yield from ((gpu, "", begin, end, UNOBSERVED) for gpu in range(spec.count))


def _free(simulated: Simulated, gpu: int, start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    """Spans within [start, end) in which the GPU works and no job has anything on it."""
    spec = simulated.spec
    occupied = [
        (job.start_ms, job.end_ms)
        for job in jobs_between(spec, start_ms, end_ms)
        if gpu in job.gpus
    ]
    occupied += faults_between(spec, start_ms, end_ms) if gpu == spec.faulty else []
    for begin, end in [*sorted(occupied), (end_ms, end_ms)]:
        if start_ms < begin:
            yield start_ms, begin
        start_ms = max(start_ms, end)
