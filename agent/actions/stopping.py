"""Whether a job may be ended now, and how: by its scheduler's own command, by the API server, or by
its processes.
"""

from typing import Callable, FrozenSet, List, Mapping, Optional

from agent.actions.ending_pods import PodEnding
from agent.actions.orders import Order, OrderError
from agent.actions.rest import Rests
from agent.actions.seen import Seen
from agent.actions.signalling import ask_to_end
from agent.readings import Job, Workload
from agent.workloads.slurm.command import Commands

KUBERNETES = "kubernetes"
# an engine answers when the container ended: it may take 10 s to save what it has, or as long as
# it was started with (--stop-timeout)
ENGINE_S = 60.0

Ending = Callable[[Order, Workload], None]


class Stopping:
    """A job of this node, which rested long enough as this agent sees it."""

    def __init__(self, order: Order, seen: Seen, now_ms: int) -> None:
        """Raises OrderError."""
        self._order = order
        self._workload = check(order, seen.rests, now_ms)
        self._pod: Optional[PodEnding] = None
        if order.scheduler == KUBERNETES:
            [job, *_] = _jobs(order, self._workload)
            self._pod = PodEnding(job)

    def look(self) -> str:
        """What is to be done. Raises OrderError, and SchedulerError of a pod that may not be
        ended.
        """
        by = self._pod.look() if self._pod else ""
        return "%s %s%s" % (self._order.kind, self._order.job, by)

    def do(self) -> None:
        """Ends the job. Raises OrderError, and SchedulerError of a command that failed."""
        if self._pod:
            self._pod.do()
        else:
            stop(self._order, self._workload)


def check(order: Order, rests: Rests, now_ms: int) -> Workload:
    """What this host knows of the job, which holds the order's GPUs and no other and rested long
    enough on all of them. Raises OrderError.
    """
    workload = rests.workload
    if workload is None or not all(source.ok for source in workload.sources):
        raise OrderError("it is not known who holds the GPUs")
    if _held(order, workload) != frozenset(order.gpus):
        raise OrderError("the job does not hold these GPUs, or others too")
    for uuid in order.gpus:
        if _others(uuid, order, workload):
            raise OrderError("another job holds one of these GPUs too")
        if rests.rested_ms(uuid, now_ms) < order.grace_ms:
            raise OrderError("a GPU of the job did something, or was not read, within the grace")
    if order.scheduler not in (KUBERNETES, *ENDINGS):
        raise OrderError("this agent can't end a job of %s" % order.scheduler[:40])
    return workload


def stop(order: Order, workload: Workload) -> None:
    """Ends a job that is no pod. Raises OrderError, and SchedulerError of a command that failed."""
    ENDINGS[order.scheduler](order, workload)


def _jobs(order: Order, workload: Workload) -> List[Job]:
    return [job for job in workload.jobs if (job.scheduler, job.id) == (order.scheduler, order.job)]


def _held(order: Order, workload: Workload) -> FrozenSet[str]:
    keys = {job.key for job in _jobs(order, workload)}
    return frozenset(
        each.uuid for each in workload.allocations if each.job_key in keys and each.end_ms is None
    )


def _others(uuid: str, order: Order, workload: Workload) -> bool:
    keys = {job.key for job in _jobs(order, workload)}
    return any(
        each.uuid == uuid and each.job_key not in keys and each.end_ms is None
        for each in workload.allocations
    )


def _by_slurm(order: Order, workload: Workload) -> None:
    [job, *_] = _jobs(order, workload)
    Commands().run("scancel", "--", _slurm_id(job))


def _slurm_id(job: Job) -> str:
    """What ends this job alone: the last task of an array has the whole array's number, which would
    end every task. Raises OrderError of a part of a heterogeneous job, whose other parts end too,
    and of a job that only the prolog's files tell of: they say nothing of either.
    """
    if not job.labels.get("nodes"):
        raise OrderError("Slurm did not say yet whether it is a part of something")
    if job.labels.get("het_job"):
        raise OrderError("it is a part of a heterogeneous job")
    array = job.labels.get("array_job", "")
    task = job.labels.get("array_task", "")
    return "%s_%s" % (array, task) if array.isdigit() and task.isdigit() else job.id


def _by_engine(order: Order, _: Workload) -> None:
    """By the command of the engine that runs the container, which has its name."""
    engine = Commands(folders=("/usr/bin", "/usr/local/bin"), timeout_s=ENGINE_S)
    engine.run(order.scheduler, "stop", "--", order.job)


def _by_signal(order: Order, workload: Workload) -> None:
    """SIGTERM to the processes that hold the job's GPUs: they may save what they have."""
    keys = {job.key for job in _jobs(order, workload)}
    if not ask_to_end([each for each in workload.processes if each.job_key in keys]):
        raise OrderError("no process of the job is known that holds a GPU still")


ENDINGS: Mapping[str, Ending] = {
    "slurm": _by_slurm,
    "docker": _by_engine,
    "podman": _by_engine,
    "process": _by_signal,
}
