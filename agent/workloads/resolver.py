"""From the processes on the GPUs to who holds them: a declared job, containers, or bare processes."""

from typing import Dict, List, Optional, Sequence, Set, Tuple

from agent.reading import Allocation, GPUInfo, Job, Process, Processes, ProcessReading, Scheduler, SourceStatus, Workload
from agent.workloads.docker import SOCKET, Docker
from agent.workloads.poller import Poller
from agent.workloads.proc import DEAD_STATES, STUCK_STATE, Proc, ProcessFacts

# Waiting for a disk is state D too: only who stays in it this long hangs in the driver and holds nothing for anybody.
STUCK_MS = 60_000
# By the process's name alone; anything else is batch.
KINDS = {
    "jupyter-lab": "interactive", "jupyter-noteboo": "interactive", "jupyter-notebook": "interactive", "code-server": "interactive",
    "rsession": "interactive", "vllm": "service", "VLLM::EngineCor": "service", "tritonserver": "service", "ollama": "service",
    "text-generation": "service",
}  # fmt: skip

Identity = Tuple[int, int]  # pid, start in ticks


class Resolver:
    """Names who holds the GPUs of a host without a scheduler. Keeps only since when it saw each holder."""

    def __init__(
        self,
        *,
        node: str,
        schedulers: Sequence[Scheduler] = (),
        cluster: str = "",
        declared: Optional[Job] = None,
        proc_root: str = "/proc",
        docker_socket: str = SOCKET,
    ) -> None:
        self._node, self._cluster = node, cluster
        self._pollers = [Poller(scheduler) for scheduler in schedulers]
        self._declared = declared
        self._proc = Proc(proc_root)
        self._docker = Docker(docker_socket)
        self._boot = self._proc.boot_id().replace("-", "")[:8]
        self._seen_ms: Dict[Tuple[str, str], int] = {}  # (uuid, job key) -> start of the window that saw it first
        self._stuck_ms: Dict[Identity, int] = {}

    def resolve(self, processes: Processes, *, gpus: Sequence[GPUInfo], start_ms: int, end_ms: int) -> Workload:
        """Every job and allocation of the window, and the processes at its end."""
        found = [(uuid, reading, self._proc.facts(reading.pid)) for uuid, readings in processes.items() for reading in readings or ()]
        self._stuck_ms = {
            (facts.pid, facts.start_ticks): self._stuck_ms.get((facts.pid, facts.start_ticks), start_ms)
            for _, _, facts in found
            if facts is not None and facts.state == STUCK_STATE
        }
        if self._declared is not None:
            return self._with_declared(self._declared, found, gpus, start_ms, end_ms)
        return self._with_processes(found, processes, start_ms, end_ms)

    def _with_declared(
        self,
        job: Job,
        found: Sequence[Tuple[str, ProcessReading, Optional[ProcessFacts]]],
        gpus: Sequence[GPUInfo],
        start_ms: int,
        end_ms: int,
    ) -> Workload:
        """The declared job holds all GPUs, whatever runs on them."""
        since_ms = start_ms if job.start_ms is None else job.start_ms
        return Workload(
            jobs=[job],
            allocations=[Allocation(gpu.uuid, job.key, "declared", since_ms, job.end_ms) for gpu in gpus],
            processes=[_process(uuid, reading, facts, job.key) for uuid, reading, facts in found],
            sources=[SourceStatus("declared", ok=True, seen_ms=end_ms)],
        )

    def _with_processes(
        self, found: Sequence[Tuple[str, ProcessReading, Optional[ProcessFacts]]], processes: Processes, start_ms: int, end_ms: int
    ) -> Workload:
        jobs: Dict[str, Job] = {}
        named: List[Process] = []
        holds: Dict[Tuple[str, str], Tuple[str, int]] = {}  # (uuid, job key) -> (source, since)
        for uuid, reading, facts in found:
            job = self._job(facts, end_ms) if facts is not None and self._is_alive(facts, end_ms) else None
            named.append(_process(uuid, reading, facts, job.key if job else None))
            if job is not None and facts is not None:
                jobs.setdefault(job.key, job)
                since_ms = max(start_ms, min(facts.started_ms or 0, end_ms))
                source = "docker" if job.scheduler == "docker" else "process"
                holds.setdefault((uuid, job.key), (source, since_ms))
        self._seen_ms = {hold: self._seen_ms.get(hold, since_ms) for hold, (_, since_ms) in holds.items()}
        allocations = [Allocation(uuid, key, source, self._seen_ms[uuid, key]) for (uuid, key), (source, _) in holds.items()]
        return Workload(list(jobs.values()), allocations, named, _sources(processes, {source for source, _ in holds.values()}, end_ms))

    def _is_alive(self, facts: ProcessFacts, now_ms: int) -> bool:
        if facts.state in DEAD_STATES:
            return False
        since_ms = self._stuck_ms.get((facts.pid, facts.start_ticks))
        return since_ms is None or now_ms - since_ms < STUCK_MS

    def _job(self, facts: ProcessFacts, now_ms: int) -> Job:
        """The container, scheduler's job or bare process that the process is part of."""
        owner = facts.owner
        if owner is None:
            identity = "%s-%d-%d" % (self._boot, facts.pid, facts.start_ticks)
            return self._named("process", identity, facts, name=facts.name, start_ms=facts.started_ms)
        if owner.kind != "docker":
            return self._named(owner.kind, owner.id, facts, name="" if owner.kind == "slurm" else owner.id[:12])
        container = self._docker.container(owner.id, now_ms=now_ms)
        if container is None:
            return self._named("docker", owner.id[:12], facts, name=owner.id[:12])
        return Job(
            key="docker/%s/%s" % (self._node, owner.id[:12]),
            scheduler="docker",
            cluster=self._node,
            id=owner.id[:12],
            name=container.name,
            user=container.user or facts.user,
            account=container.account,
            kind=container.kind,
            state="RUNNING",
            restarts=container.restarts,
            labels=container.labels,
        )

    def _named(self, scheduler: str, identity: str, facts: ProcessFacts, *, name: str, start_ms: Optional[int] = None) -> Job:
        return Job(
            key="%s/%s/%s" % (scheduler, self._node, identity),
            scheduler=scheduler,
            cluster=self._node,
            id=identity,
            name=name,
            user=facts.user,
            kind=KINDS.get(facts.name, "batch"),
            state="RUNNING",
            start_ms=start_ms,
        )


def _process(uuid: str, reading: ProcessReading, facts: Optional[ProcessFacts], job_key: Optional[str]) -> Process:
    """For people; a process that /proc does not know is named by its pid alone."""
    if facts is None:
        return Process(uuid, reading.pid, memory_bytes=reading.memory_bytes)
    return Process(uuid, reading.pid, job_key, facts.started_ms, facts.user, facts.name, facts.state, reading.memory_bytes)


def _sources(processes: Processes, seen: Set[str], now_ms: int) -> List[SourceStatus]:
    """`process` answered where at least one GPU's list could be read; `docker` is named where containers were seen."""
    is_read = not processes or any(readings is not None for readings in processes.values())
    sources = [SourceStatus("process", ok=is_read, seen_ms=now_ms)]
    return sources + ([SourceStatus("docker", ok=True, seen_ms=now_ms)] if "docker" in seen else [])
