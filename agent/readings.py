"""What the agent's parts hand to each other: readings of GPUs, and who holds them.

Everything here is in base units: ratios 0 to 1, bytes, watts, joules, celsius,
hertz, milliseconds since the epoch. None is "not read", never zero.
"""

from dataclasses import dataclass, field, replace
from typing import (
    Callable,
    Dict,
    FrozenSet,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
    runtime_checkable,
)

from agent.errors import AgentError


class SourceError(AgentError):
    """A source, or one GPU of it, can't be read now; the text says why, for the operator."""


class DriverChangedError(SourceError):
    """The driver was changed under this process: only a new process of the agent can read again."""


class UnreachableError(SourceError):
    """Who could tell of the GPUs does not answer (an exporter); of the driver and the GPUs that
    says nothing.
    """


@dataclass(frozen=True)
class GPUInfo:
    """A GPU's identity and limits.

    `bus_id` and `minor` help to match jobs and stay on this host.
    """

    uuid: str
    index: Optional[int] = None
    model: Optional[str] = None
    memory_total_bytes: Optional[int] = None
    power_limit_w: Optional[float] = None
    sm_count: Optional[int] = None
    sm_clock_max_hz: Optional[float] = None
    parent_uuid: Optional[str] = None
    mig_profile: Optional[str] = None
    persistence: Optional[bool] = None
    bus_id: Optional[str] = None
    minor: Optional[int] = None
    # of a MIG instance: the number by which prologs name it beside its parent
    gpu_instance: Optional[int] = None
    # wire column -> why: not_supported, no_permission, ...
    unread: Mapping[str, str] = field(default_factory=dict)


GPUs = Sequence[GPUInfo]


@dataclass(frozen=True)
class Reading:
    """One GPU at one instant.

    `util_samples` are the driver's own samples since the previous reading, oldest first, as
    (microseconds of the driver's clock, ratio): only their distances mean anything. `energy_j` is
    the counter as it stands. `means` are averages since the previous reading, by wire column
    (sm_active, encoder_ratio, ...).
    """

    at_ms: int
    util: Optional[float] = None
    util_samples: Sequence[Tuple[int, float]] = ()
    memory_util: Optional[float] = None
    memory_used_bytes: Optional[int] = None
    memory_reserved_bytes: Optional[int] = None
    power_w: Optional[float] = None
    energy_j: Optional[float] = None
    temperature_c: Optional[float] = None
    memory_temperature_c: Optional[float] = None
    sm_clock_hz: Optional[float] = None
    ecc_uncorrected: Optional[int] = None  # since the driver was loaded
    means: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessReading:
    """One process with a context on a GPU, as the driver names it (host pid where the agent runs on
    the host).
    """

    pid: int
    memory_bytes: Optional[int] = None


ProcessList = Optional[Sequence[ProcessReading]]  # of a GPU; None where it could not be read
Processes = Mapping[str, ProcessList]  # by GPU uuid


@dataclass(frozen=True)
class Event:
    """Something that happened to a GPU (uuid None: to the node); kinds are wire.EVENT_KINDS."""

    at_ms: int
    kind: str
    uuid: Optional[str] = None
    code: Optional[int] = None
    text: str = ""


Events = Sequence[Event]


class Source(Protocol):
    """Where readings come from. Called from one thread only; a call may hang, never raise but
    SourceError.

    Some are a HolderSource, PacedSource, VersionedSource or NotedSource besides.
    """

    name: str  # as the wire says it: nvml, nvidia-smi, simulated, replay

    def driver(self) -> Optional[str]:
        """The driver's version; None where the source does not know it."""

    def gpus(self) -> List[GPUInfo]:
        """Every GPU the source knows, readable or not; asked again at each flush.

        Raises SourceError.
        """

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The GPU at now_ms, asked once a second; None when there is nothing newer.

        Raises SourceError for this GPU.
        """

    def processes(self, uuid: str) -> ProcessList:
        """The GPU's processes, asked once per window; None when they can't be read.

        Raises SourceError.
        """

    def events(self, now_ms: int) -> List[Event]:
        """What happened since the last call."""

    def close(self) -> None:
        """Releases the driver; the source is not used afterwards."""


@dataclass(frozen=True)
class Job:
    """A job as its scheduler knows it; `key` is scheduler/cluster/id."""

    key: str
    scheduler: str = ""
    cluster: str = ""
    id: str = ""
    name: str = ""
    user: str = ""
    account: str = ""
    kind: str = "batch"
    state: str = ""
    submit_ms: Optional[int] = None
    start_ms: Optional[int] = None
    end_ms: Optional[int] = None
    restarts: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Allocation:
    """A job's hold on a GPU; end_ms None: it still holds it at the end of the window asked for."""

    uuid: str
    job_key: str
    source: str
    start_ms: Optional[int] = None
    end_ms: Optional[int] = None
    share: Optional[float] = None


@dataclass(frozen=True)
class Process:
    """A process on a GPU, for people; `state` is /proc's letter (R, S, D, Z, ...).

    `start_ticks`, since boot, stays on this host: with the pid no other process of this boot has
    it. None where /proc does not know the process.
    """

    uuid: str
    pid: int
    job_key: Optional[str] = None
    started_ms: Optional[int] = None
    user: str = ""
    name: str = ""
    state: str = ""
    memory_bytes: Optional[int] = None
    start_ticks: Optional[int] = None


@dataclass(frozen=True)
class SourceStatus:
    """Whether a source of jobs (slurm, kubernetes, declared, docker, process) answered; `why` it
    did not, for people.
    """

    kind: str
    ok: bool
    seen_ms: Optional[int] = None
    why: str = ""


Values = Dict[str, float]  # by column of the wire, or by what a source calls it


@dataclass(frozen=True)
class Workload:
    """Who held which GPU during one window."""

    jobs: Sequence[Job] = ()
    allocations: Sequence[Allocation] = ()
    processes: Sequence[Process] = ()
    sources: Sequence[SourceStatus] = ()
    # GPU uuid -> its holder's job_* columns of the wire
    facts: Mapping[str, Values] = field(default_factory=dict)
    # the host's columns, where the GPUs are on another host than this agent
    host: Optional[Values] = None
    pending_gpus: Optional[int] = None  # GPUs that jobs wait for in the scheduler's queue
    drained: Optional[str] = None  # as in Holdings

    def answers(self) -> Set[Tuple[str, bool]]:
        """Which sources were asked, and whether they answered."""
        return {(source.kind, source.ok) for source in self.sources}

    def unknown(self) -> "Workload":
        """No jobs, of which nothing may be concluded."""
        return Workload(sources=[SourceStatus(source.kind, ok=False) for source in self.sources])


def unanswered(sources: Sequence[SourceStatus]) -> List[SourceStatus]:
    """The sources, none of which answered."""
    return [replace(source, ok=False) for source in sources]


class SchedulerError(Exception):
    """A scheduler does not answer, or not so that it can be understood; the text says why, for the
    operator.
    """


@dataclass(frozen=True)
class Holdings:
    """What a scheduler's books say of this node's GPUs now.

    `aliases` lead from what a control group may name (a SLUID, a pod's uid, a container's id) to
    the key of a job. `unplaced` are the keys of jobs that run here while nobody says on which GPUs;
    `doubt` says why GPUs without an allocation may be theirs, "" where none may.
    """

    jobs: Sequence[Job] = ()
    allocations: Sequence[Allocation] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    unplaced: FrozenSet[str] = frozenset()
    doubt: str = ""
    pending_gpus: Optional[int] = None
    # why the node takes no jobs; "" when it takes them, None when the books do not say
    drained: Optional[str] = None


class Scheduler(Protocol):
    """One set of books: Slurm's, Kubernetes', Docker's. Asked from a thread of its own, because it
    may take seconds. Some are a WatchfulScheduler besides.
    """

    kind: str  # as the wire's sources say it: slurm, kubernetes, docker
    interval_s: float  # between two questions

    def poll(self, gpus: GPUs, now_ms: int) -> Holdings:
        """Every job that holds a GPU of this node now. Raises SchedulerError."""


@runtime_checkable
class WatchfulScheduler(Protocol):
    """A scheduler that can see on this host that a job came or went."""

    def has_changed(self) -> bool:
        """Whether one did since the last answer; asked each second between two questions."""


class Workloads(Protocol):
    """From processes to jobs. Called once per window, from the same thread as the source."""

    def resolve(self, processes: Processes, *, gpus: GPUs, start_ms: int, end_ms: int) -> Workload:
        """Every job and allocation that overlaps [start_ms, end_ms), and the processes alive at its
        end. Never raises.
        """


@runtime_checkable
class HolderSource(Protocol):
    """A source that knows who holds its GPUs."""

    def workloads(self, otherwise: Callable[[], Workloads]) -> Workloads:
        """Who is asked; `otherwise` makes the host's own."""


@runtime_checkable
class PacedSource(Protocol):
    """A source whose readings are not a second apart, but so much."""

    interval_ms: int


@runtime_checkable
class VersionedSource(Protocol):
    """A source that knows more versions than the driver's."""

    def versions(self) -> Dict[str, str]:
        """By what they are versions of, for people."""


@runtime_checkable
class NotedSource(Protocol):
    """A source that has something to say of what it reads."""

    def notes(self) -> List[str]:
        """Sentences for the operator."""


NO_WORKLOAD = Workload()
