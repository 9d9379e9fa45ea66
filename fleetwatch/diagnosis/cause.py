"""What a cause is: one record with all that anybody asks of it. Each file of causes/ makes one.
Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import Detector
from fleetwatch.diagnosis.shell import NOWHERE, Place, nothing
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask
from fleetwatch.lib.spans import Span

# What a cause says of the time that it explains: it could have been used, it was used well, nobody
# saw it, or nobody knows why it was not used.
WASTED = "wasted"
WELL = "well"
UNSEEN = "unseen"
UNKNOWN = "unknown"

# Of which idle jobs a cause is: of a part of whose GPUs, on whose GPUs nothing or something is.
PART = "part"
EMPTY = "empty"
HELD = "held"

MINUTES = "minutes"
HOURS = "hours"
DAYS = "days"
OWNER = "the job's owner"
ADMIN = "whoever runs the machines"
FASTER = "the same work could end so much earlier; GPUs become free only when it does"
FREED = "the GPU is free for others at once"
HAD_IT_ENDED = "had it ended at once"  # of a job that is over: nothing is freed any more

PY_SPY = "py-spy dump --pid PID"
NSYS = "nsys profile -t cuda,nvtx,osrt --duration=60 python train.py"
TORCH_PROFILER = (
    "from torch.profiler import profile, schedule, tensorboard_trace_handler\n"
    "with profile(schedule=schedule(wait=5, warmup=2, active=5),"
    " on_trace_ready=tensorboard_trace_handler('trace')) as prof:\n"
    "    for batch in loader:\n"
    "        train_step(batch)\n"
    "        prof.step()"
)

# What is drawn of the GPU that a finding affects most, in this order: columns of frames.
CURVES = ("util_mean", "power_w", "sm_active", "tensor_active")
WITH_MEMORY = (*CURVES, "memory_used_bytes")

SHOWN = 50  # pauses of a job

Overruled = tuple[Mask, int, float]  # cells, how surely, and the share that could be recovered


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do: a sentence, and the setting or command to copy ("" = none).

    `topics` are what it is about: a fix is left out where an earlier step is about the same.
    `sign` is the feature that it is for: where that was read and is not met, it is looked at beside
    the others, not done.
    `fitted` is the step with the job's own numbers; None there = it would not help this job.
    `detail` is left out where a list says the step in a line. `saved_gpu_ms` is what the step alone
    would have saved, where that is known, of the job's `idle_gpu_ms`. Of what `is_over` it says
    that nothing is to do.
    """

    text: str
    code: str = ""
    topics: tuple[str, ...] = ()
    sign: str = ""
    fitted: "Callable[[Facts], Step | None] | None" = None
    detail: str = ""
    is_over: bool = False
    saved_gpu_ms: int = 0
    idle_gpu_ms: int = 0

    @property
    def what(self) -> str:
        """Its text without the numbers that follow it."""
        return self.text.partition(":")[0].removesuffix(".")


@dataclass(frozen=True, slots=True)
class Pauses:
    """The spans of time, in order, in which the ledger calls all of a job's GPUs idle without a
    break, and from what length on it does. `idle_gpu_ms` is all that the job's GPUs were idle then,
    by the same ledger, together or one by one.
    """

    spans: tuple[Span, ...]
    idle_after_s: float
    idle_gpu_ms: int
    counted: float = 1.0  # as the job's idle time, of its idle runs: less for gaps and sharers
    are_all: bool = False  # of what is known of the job: its GPUs did nothing else
    worked_ms: int | None = None  # when the run, or its hour, ends in which a GPU worked last
    has_moments: bool = False  # of work, over which the ledger's idle runs go on

    @property
    def lengths_s(self) -> list[float]:
        return [(end_ms - start_ms) / 1000 for start_ms, end_ms in self.spans]

    @property
    def rest_s(self) -> float:
        """For how long the job did nothing at all since its last pause began and it worked last; 0
        where it worked after that.
        """
        if not self.spans:
            return 0.0
        start_ms, end_ms = self.spans[-1]
        return max(end_ms - max(start_ms, self.worked_ms or start_ms), 0) / 1000

    @property
    def idle_after_ms(self) -> int:
        return round(self.idle_after_s * 1000)

    @property
    def shown(self) -> list[tuple[int, int, int]]:
        """When the newest of them began and ended, and how long they were, the last one first."""
        newest = self.spans[: -SHOWN - 1 : -1]
        return [(start_ms, end_ms, end_ms - start_ms) for start_ms, end_ms in newest]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the evidence says in numbers; None = not read."""

    place: Place = NOWHERE
    gpus: int = 1
    affected_gpus: int = 1  # at a time
    gpus_on_node: int = 1  # of the job, on the node of the GPU that was looked at
    node_gpus: int | None = None  # of that node, whoever holds them
    cores: float | None = None  # of the job, on that node
    cpu_ratio: float | None = None  # of these cores in use
    util: float | None = None  # mean of the GPU that was looked at
    memory_total_bytes: float | None = None
    memory_peak_ratio: float | None = None
    gpu_model: str = ""
    mig_profile: str = ""  # of a MIG instance; memory is the instance's then
    kind: str = ""  # of the job: batch, interactive or service
    met: frozenset[str] = frozenset()  # features whose signs are met
    indexes: tuple[int, ...] = ()  # of the affected GPUs, on their node
    pauses: Pauses | None = None
    is_lost: bool = False  # a machine's driver lost one of the affected GPUs: XID 79
    again: tuple[tuple[str, str], ...] = ()  # GPUs that failed before, and how often, in words
    # of a node that nobody saw the newest such time, in ms; no end of what goes on
    gap: tuple[int, int | None] | None = None
    session: str = (
        ""  # of an interactive job what runs it, as session_kinds.py tells; "" = not known
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """The job's GPU that a rule compares the affected one with: the one whose `feature` is nearest
    to what `of_all` makes of all the others. Of `curves` the first that was read is drawn of it.
    """

    feature: str
    of_all: Callable[[Floats], float]
    curves: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """Of a cause whose findings are a node's, or a cluster's: one thing to mend, however many jobs
    it hurt.

    `curve` names what is drawn hour by hour. `worth` says what its dollars stand for where its time
    is a line of the ledger of its own: capacity, never a part of what was wasted. "" = it is a part
    of that; `how` says then how its GPUs were meanwhile.
    `entries` is the SELECT of its rows (sql/capacity_entries.sql), "" where a detector or the queue
    tells it; `state` the state of the ledger all of whose time it explains ("" = none). `past` is
    what is said of one that is over, before the machine's name, `past_sentence` what happened.
    """

    curve: str = ""
    worth: str = ""
    how: str = ""
    entries: str = ""
    state: str = ""
    past: str = ""
    past_sentence: str = ""
    of_cluster: bool = False
    episode: str = ""  # what each of its times is called, as it happens anew; "" = it is how it is
    is_failure: bool = False  # it ends its holder's job, and the driver says why


def _no_steps(_: Facts) -> tuple[Step, ...]:
    return ()


def _nothing_else(_: Facts) -> str:
    return ""


def _not_known(_: Facts) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause: how it is told, what people are told of it, and what helps.

    `alike` is what telemetry can't tell from it; `tell` the steps that do. `steps` are those whose
    numbers follow from the evidence; they stand before `fixes`. `by_kind` is the cause as it is
    told of jobs of that kind, where that differs.
    `overrule` says which cells are its own whatever windows say, where the ledger wastes little or
    (second argument) much of them. `pick` is, of a job's lanes that are held at a cell, the one to
    look at, where that is not the one that wastes most.
    """

    code: str
    title: str
    sentence: str
    looks: str
    sensors: str
    fixes: tuple[Step, ...]
    effort: str
    range_words: str
    saved_words: str = ""  # which of its time could be saved, where that is not all of it
    bounds_words: str = ""  # why a sign's bound is not the same of every job
    alike: str = ""
    tell: tuple[Step, ...] = ()
    who: str = OWNER
    by_kind: Mapping[str, "Cause"] = field(default_factory=dict)
    if_observed: "Cause | None" = None  # of a job that was observed: what is told instead

    detectors: tuple[Detector, ...] = ()
    overrule: Callable[[Features, Mask], Iterator[Overruled]] | None = None
    verdict: str = WASTED
    left_over: str = ""  # where it is, of what is wasted all the same by no known cause
    is_unmeasured: bool = False  # how well the GPU is used is not known of it
    is_alone: bool = False  # what was read for it leaves no other cause possible
    machine: Machine = Machine()  # without a curve: it is of jobs
    idle: str = ""  # of which jobs it is, told by the ledger alone: PART, EMPTY or HELD

    steps: Callable[[Facts], tuple[Step, ...]] = _no_steps
    needs_numbers: bool = False  # its steps follow from what was measured
    told_by: Callable[[Facts], str] = _nothing_else  # what its signs say, instead of the sentence
    command: Callable[[Place], str] = nothing
    command_of: int = 0  # the one of its fixes that the command does
    is_ended: bool = False  # the first of its fixes is to end the job
    is_used: Callable[[Facts], bool] = _not_known  # people come back to it: it is not to be ended
    when_over: tuple[Step, ...] = ()  # of a machine that is well again: what is told instead

    curves: tuple[str, ...] = CURVES
    beside: Beside | None = None
    pick: Callable[[Features, Ints, int], int] | None = None
    has_rhythm: bool = False  # it is seen by pauses some minutes apart: hours of them are a block
    rests_long: bool = False  # it is seen by pauses of seconds, not by falls between two samples
    shows_demand: bool = False  # its page says how many GPUs the job needed

    @property
    def is_of_cells(self) -> bool:
        """Whether a job's five minutes can have it: others are of GPUs that nobody holds."""
        return bool(self.detectors or self.overrule) or self.verdict == UNKNOWN
