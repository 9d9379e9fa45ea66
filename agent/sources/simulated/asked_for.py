"""What simulated jobs asked their scheduler for, and how long they waited for it."""

from typing import Dict, NamedTuple

from agent.sources.simulated.hosting import MEMORY_PER_GPU_GIB
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import Signal

HOUR_MS = 3_600_000
LIMITS_H = (1, 2, 4, 8, 12, 24, 48, 72, 168)  # that people write
SPARE = (1.1, 3.0)  # of the time a job takes: nobody knows that before
# seconds in the queue, by the kind of job; a service runs on
WAITS_S = {"batch": (5.0, 5400.0), "interactive": (2.0, 240.0), "service": (1.0, 20.0)}


class Request(NamedTuple):
    """When a job was submitted, and its labels as Slurm's client names them."""

    submit_ms: int
    labels: Dict[str, str]


def request_of(job: SimulatedJob) -> Request:
    """The same each time that it is asked for."""
    draw = job.draw("%s/%d/request" % (job.cluster, job.number))
    gpus = len(job.gpus)
    wait_s = draw.number(WAITS_S[job.archetype.kind])
    labels = {
        "requested_gpus": str(gpus),
        "requested_cpus": str(Signal(job).traits.cores_per_gpu * gpus),
        "requested_memory": "%dG" % (MEMORY_PER_GPU_GIB * gpus),
    }
    spare = draw.number(SPARE)
    if job.archetype.kind != "service":
        labels["time_limit_minutes"] = str(_limit_h(job, spare) * 60)
    return Request(job.start_ms - int(wait_s * 1000), labels)


def _limit_h(job: SimulatedJob, spare: float) -> int:
    """The shortest that people write of so many times as long as the job takes."""
    needed_h = (job.end_ms - job.start_ms) / HOUR_MS
    fitting = [hours for hours in LIMITS_H if hours >= needed_h * spare]
    return fitting[0] if fitting else int(needed_h * spare) + 1
