"""A host's resolver, with schedulers whose answers a test sets and that are asked when it says so."""

import threading

from agent.readings import Allocation, GPUInfo, Holdings, Job, ProcessReading, SchedulerError
from agent.workloads import Resolver
from agent.workloads.poller import Poller

HEX = "9ec39b91" * 8
POD = "045b1e35-7f13-11e7-ac42-0050568ffca0"
GPU = "GPU-1"
GPUS = [GPUInfo(GPU), GPUInfo("GPU-2")]
NOW = 1_794_000_100_000
SLURM_4711 = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0"
TRAIN = Job(
    "slurm/della/4711", "slurm", "della", "4711", "train", "ann", "nlp", start_ms=NOW - 60_000
)


class Books:
    """A scheduler whose answer the test sets; None: it does not answer."""

    interval_s = 30.0

    def __init__(self, kind, holdings):
        self.kind, self.holdings = kind, holdings

    def poll(self, gpus, now_ms):
        if self.holdings is None:
            raise SchedulerError("slurmctld is away")
        return self.holdings


def made(root, *schedulers, **options):
    """A resolver whose schedulers are asked by the test, with `ask`."""
    resolver = Resolver(node="gpu-07", proc_root=str(root), **options)
    for scheduler in schedulers:
        add(resolver, scheduler)
    resolver.look(GPUS)
    ask(resolver)
    return resolver


def add(resolver, scheduler):
    """The scheduler's books, without a thread that reads them."""
    poller = resolver._pollers[scheduler.kind] = Poller(scheduler)
    poller._thread = threading.current_thread()


def ask(resolver, *, later_s=0.0):
    """Every scheduler is asked once; before, the given time passes."""
    for poller in resolver._pollers.values():
        now_s = poller._clock_s() + later_s
        poller._clock_s = lambda now_s=now_s: now_s
        poller.ask()


def resolve(resolver, pids=(), *, at=0, gpus=GPUS):
    seen = pids if isinstance(pids, dict) else {GPU: [ProcessReading(pid) for pid in pids]}
    return resolver.resolve(seen, gpus=gpus, start_ms=NOW + at, end_ms=NOW + at + 10_000)


def holds(workload):
    return [(item.uuid, item.job_key, item.source) for item in workload.allocations]


def statuses(workload):
    return {source.kind: source.ok for source in workload.sources}


def slurm(*jobs, aliases=None, **options):
    """Slurm's books with these jobs on GPU-1."""
    return Books(
        "slurm",
        Holdings(
            jobs=list(jobs),
            allocations=[Allocation(GPU, job.key, "slurm", job.start_ms) for job in jobs],
            aliases={job.id: job.key for job in jobs} if aliases is None else aliases,
            **options,
        ),
    )
