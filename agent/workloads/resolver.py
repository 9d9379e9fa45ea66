"""From the processes on the GPUs and the schedulers' books to who holds which GPU."""

from itertools import islice
from typing import (
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from agent.host import kernel_boot_id
from agent.readings import (
    Allocation,
    GPUs,
    Job,
    Process,
    Processes,
    ProcessReading,
    Scheduler,
    SourceStatus,
    Workload,
)
from agent.workloads.host_load import FactsReader, Member, grouped
from agent.workloads.naming import ENGINES, SCHEDULERS, Books, Hints, Naming, books_of, with_hints
from agent.workloads.poller import Answer, Poller
from agent.workloads.proc import DEAD_STATES, STUCK_STATE, Identity, Proc, ProcessFacts

# Waiting for a disk is state D too: only who stays in it this long hangs in the driver and holds
# nothing for anybody.
STUCK_MS = 60_000

MAX_PROCESSES = 1024  # of all GPUs together; a batch takes four times as many jobs

UNSEEN = ProcessFacts(0, 0, None, name="", state="", user="")
Hold = Tuple[str, str]  # GPU uuid, job key


class Holder(NamedTuple):
    """A process of a job on a GPU."""

    uuid: str
    facts: ProcessFacts
    job: Job


Holders = Sequence[Holder]


class Resolver:
    """Names who holds the GPUs of this host.

    Where a scheduler gives them out only its books make an allocation, and while they are silent
    nobody does; elsewhere containers and processes hold what they use. A declared job holds
    everything.
    """

    def __init__(
        self,
        *,
        node: str,
        schedulers: Callable[[], Sequence[Scheduler]] = list,
        cluster: str = "",
        declared: Optional[Job] = None,
        proc_root: str = "/proc",
    ) -> None:
        self._declared = declared
        self._proc = Proc(proc_root)
        self._facts = FactsReader(proc_root)
        self._schedulers = schedulers
        self._pollers: Dict[str, Poller] = {}  # by kind
        boot = (kernel_boot_id(proc_root) or "").replace("-", "")[:8]
        self._naming = Naming(node=node, cluster=cluster, boot=boot)
        self._seen_ms: Dict[Hold, Optional[int]] = {}  # start of the window that saw it first
        self._stuck_ms: Dict[Identity, int] = {}
        self._hints: Dict[str, Hints] = {}  # by job

    def resolve(self, processes: Processes, *, gpus: GPUs, start_ms: int, end_ms: int) -> Workload:
        """Every job and allocation of the window, and the processes at its end."""
        answers = self.look(gpus)
        books = books_of(answers)
        self._naming.learn(books)
        seen, holders = self._find(processes, books, start_ms)
        allocations = self._allocations(holders, books, gpus, start_ms=start_ms, end_ms=end_ms)
        members = [
            Member(uuid, job.key, facts.pid, _path(job, facts)) for uuid, facts, job in holders
        ]
        sole_jobs = _sole_jobs(seen, allocations, start_ms)
        return Workload(
            jobs=self._jobs(holders, books, allocations),
            allocations=allocations,
            processes=seen,
            sources=[
                *(answer.status for answer in answers),
                *self._own_statuses(processes, books, holders, end_ms),
            ],
            facts=self._facts.read(
                members, holders=sole_jobs, with_others=_with_others(seen, sole_jobs)
            ),
            pending_gpus=books.pending_gpus,
            drained=books.drained,
        )

    def look(self, gpus: GPUs) -> List[Answer]:
        """What every scheduler said last; one that has just come to this host is asked from
        now on: with a look at the start the answers are there when the first window ends.
        """
        for scheduler in self._schedulers():
            if scheduler.kind not in self._pollers:
                self._pollers[scheduler.kind] = Poller(scheduler)
        return [poller.look(gpus) for poller in self._pollers.values()]

    def _find(
        self, processes: Processes, books: Books, start_ms: int
    ) -> Tuple[List[Process], Holders]:
        """All processes on the GPUs, and those of them that are of a job."""
        listed = list(islice(_listed(processes), MAX_PROCESSES))
        by_pid = self._proc.read(reading.pid for _, reading in listed)
        self._note_stuck(by_pid.values(), start_ms)
        seen: List[Process] = []
        holders: List[Holder] = []
        for uuid, reading in listed:
            facts = by_pid.get(reading.pid)
            job = self._declared
            if facts is not None:
                job = job or self._naming.job(facts, books)
            if facts is not None and job is not None:
                holders.append(Holder(uuid, facts, job))
            seen.append(_process(uuid, reading, facts, job))
        return seen, holders

    def _note_stuck(self, processes: Iterable[ProcessFacts], start_ms: int) -> None:
        stuck = {facts.identity for facts in processes if facts.state == STUCK_STATE}
        self._stuck_ms = {identity: self._stuck_ms.get(identity, start_ms) for identity in stuck}

    def _is_alive(self, facts: ProcessFacts, now_ms: int) -> bool:
        since_ms = self._stuck_ms.get(facts.identity)
        return facts.state not in DEAD_STATES and (since_ms is None or now_ms - since_ms < STUCK_MS)

    def _allocations(
        self,
        holders: Holders,
        books: Books,
        gpus: GPUs,
        *,
        start_ms: int,
        end_ms: int,
    ) -> List[Allocation]:
        job = self._declared
        if job is not None:
            since_ms = start_ms if job.start_ms is None else job.start_ms
            return [Allocation(gpu.uuid, job.key, "declared", since_ms, job.end_ms) for gpu in gpus]
        booked = [
            item
            for kind, holdings in books.fresh.items()
            if kind in SCHEDULERS or not books.has_scheduler
            for item in holdings.allocations
        ]
        if books.has_scheduler:
            given = {item.uuid for item in booked if item.end_ms is None}
            return booked + self._not_yet_booked(holders, books, given, end_ms)
        held = {(item.uuid, item.job_key) for item in booked}
        return booked + self._held_by_processes(holders, held, start_ms, end_ms)

    def _not_yet_booked(
        self, holders: Holders, books: Books, booked: Set[str], end_ms: int
    ) -> List[Allocation]:
        """What jobs hold by their processes' control groups, where the books are older than the
        process or can't say which GPU.

        Only on GPUs that the books give to nobody: they are right about all others.
        """
        since: Dict[Hold, Allocation] = {}
        for uuid, facts, job in holders:
            kind = facts.owner.kind if facts.owner is not None else ""
            if uuid in booked or kind not in SCHEDULERS or kind not in books.fresh:
                continue
            if self._is_alive(facts, end_ms) and books.may_hold(kind, job.key, facts.started_ms):
                start_ms = facts.started_ms if job.start_ms is None else job.start_ms
                item = Allocation(uuid, job.key, kind, start_ms, None, 1.0)
                since.setdefault((uuid, job.key), item)
        return list(since.values())

    def _held_by_processes(
        self, holders: Holders, booked: Set[Hold], start_ms: int, end_ms: int
    ) -> List[Allocation]:
        """What nobody gave out is held by who uses it, from the first window that saw it."""
        since: Dict[Hold, Allocation] = {}
        for uuid, facts, job in holders:
            hold = (uuid, job.key)
            if hold in booked or hold in since or not self._is_alive(facts, end_ms):
                continue
            source = "docker" if job.scheduler in ENGINES else "process"
            first_ms = max(start_ms, min(facts.started_ms or 0, end_ms))
            since[hold] = Allocation(uuid, job.key, source, self._seen_ms.get(hold, first_ms))
        self._seen_ms = {hold: item.start_ms for hold, item in since.items()}
        return list(since.values())

    def _jobs(self, holders: Holders, books: Books, allocations: Sequence[Allocation]) -> List[Job]:
        """The jobs that hold a GPU, have a process on one or have just ended, with what their
        processes show of them.
        """
        if self._declared is not None:
            return [self._declared]
        keys = [item.job_key for item in allocations]
        jobs = {key: books.jobs[key] for key in keys if key in books.jobs}
        for holdings in books.fresh.values():
            jobs.update({job.key: job for job in holdings.jobs if job.end_ms is not None})
        for holder in holders:
            jobs.setdefault(holder.job.key, holder.job)
        self._note_hints(holders, set(jobs))
        return [with_hints(job, self._hints.get(key, Hints())) for key, job in jobs.items()]

    def _note_hints(self, holders: Holders, jobs: Set[str]) -> None:
        """A kernel that has left the GPU for a while does not make the notebook a batch job."""
        hints: Dict[str, Hints] = {}
        for _, facts, job in holders:
            hints[job.key] = hints.get(job.key, Hints()).and_of(facts)
        hints = {**self._hints, **hints}
        self._hints = {key: hints[key] for key in jobs if key in hints}

    def _own_statuses(
        self, processes: Processes, books: Books, holders: Holders, now_ms: int
    ) -> List[SourceStatus]:
        """`process` answered where at least one GPU's list could be read; `docker` is named where
        containers were seen.
        """
        if self._declared is not None:
            return [SourceStatus("declared", ok=True, seen_ms=now_ms)]
        is_read = not processes or any(readings is not None for readings in processes.values())
        statuses = [SourceStatus("process", ok=is_read, seen_ms=now_ms)]
        has_containers = any(holder.job.scheduler in ENGINES for holder in holders)
        if has_containers and not books.has_scheduler and "docker" not in books.answers:
            statuses.append(SourceStatus("docker", ok=True, seen_ms=now_ms))
        return statuses


def _listed(processes: Processes) -> Iterator[Tuple[str, ProcessReading]]:
    for uuid, readings in processes.items():
        for reading in readings or ():
            yield uuid, reading


def _process(
    uuid: str, reading: ProcessReading, by_proc: Optional[ProcessFacts], job: Optional[Job]
) -> Process:
    """For people; a process that /proc does not know is named by its pid alone."""
    facts = by_proc or UNSEEN
    return Process(
        uuid,
        reading.pid,
        None if job is None else job.key,
        facts.started_ms,
        facts.user,
        facts.name,
        facts.state,
        reading.memory_bytes,
        None if by_proc is None else by_proc.start_ticks,
    )


def _path(job: Job, facts: ProcessFacts) -> str:
    """The job's control group; "" where it has none of its own: a session's holds all that its user
    does.
    """
    owner = facts.owner
    return owner.path if owner is not None and owner.kind == job.scheduler else ""


def _sole_jobs(
    seen: List[Process], allocations: Sequence[Allocation], start_ms: int
) -> Dict[str, str]:
    """GPU -> the one job that holds it; left out where several do: a mixture would explain nobody's
    waiting.

    Where no books speak, the one job whose processes are on it.
    """
    booked = grouped(
        (item.uuid, item.job_key)
        for item in allocations
        if item.end_ms is None or item.end_ms > start_ms
    )
    used = grouped((item.uuid, item.job_key) for item in seen if item.job_key is not None)
    return {uuid: keys.pop() for uuid, keys in {**used, **booked}.items() if len(keys) == 1}


def _with_others(seen: Sequence[Process], sole_jobs: Mapping[str, str]) -> Set[str]:
    """The GPUs on which a process is not known to be of the job that holds them."""
    return {process.uuid for process in seen if process.job_key != sole_jobs.get(process.uuid)}
