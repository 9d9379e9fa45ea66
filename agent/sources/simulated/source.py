"""The simulated source: readings of jobs that a schedule puts on GPUs that do not exist."""

from typing import Callable, Dict, List, Optional, Sequence, Tuple

from agent.readings import (
    Allocation,
    Event,
    GPUInfo,
    Job,
    Process,
    Processes,
    ProcessList,
    ProcessReading,
    Reading,
    SourceError,
    SourceStatus,
    Values,
    Workload,
    Workloads,
)
from agent.sources.simulated import waves
from agent.sources.simulated.asked_for import request_of
from agent.sources.simulated.card import (
    GPM_COLUMNS,
    JITTER,
    MEMORY_WARMER_C,
    RESERVED_BYTES,
    Card,
    Shown,
    bare,
    bare_w,
    card,
    memory_used,
    scaled,
    shown,
    temperature_c,
    utilisation,
)
from agent.sources.simulated.hosting import Guest, host_columns, job_columns
from agent.sources.simulated.schedule import SimulatedJob, jobs_between
from agent.sources.simulated.signal import PROCESS_AFTER_S, Signal, hot_c
from agent.sources.simulated.spec import Spec, parse_spec
from agent.sources.simulated.troubles import (
    ecc_errors,
    events_between,
    faults_between,
    outages_between,
    pending_gpus,
)

SAMPLES_PER_S = 6  # the driver's own rate
BUFFER_SAMPLES = 100  # its depth
WARMING_S = 90.0
FACTS_MS = 10_000  # what job and host did is told of so long before a window's end
MOST_POWER = 1.02  # of the limit
DRIVER = "580.95.05"


class Simulated:
    """A node of simulated GPUs with their scheduler: both a Source and a Workloads."""

    name = "simulated"

    def __init__(self, spec: str, *, node: str, start_ms: int) -> None:
        self.spec: Spec = parse_spec(spec)
        self.cards = [card(self.spec, node=node, index=index) for index in range(self.spec.count)]
        self._counters = {card.uuid: _Counter(card, self.spec, start_ms) for card in self.cards}
        self._signals: Dict[int, Signal] = {}
        self._now_ms = start_ms
        # a GPU that is lost already was lost just now
        lost = faults_between(self.spec, start_ms, start_ms + 1)
        self._events_ms = lost[0][0] - 1 if lost else start_ms

    def driver(self) -> Optional[str]:
        """A plausible driver version."""
        return DRIVER

    def gpus(self) -> List[GPUInfo]:
        """Every GPU, a lost one too."""
        return [card.info for card in self.cards]

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The GPU at now_ms; None in a telemetry outage. Raises SourceError while it is lost."""
        self._now_ms = max(self._now_ms, now_ms)
        card = self._reachable(uuid)
        if outages_between(self.spec, now_ms, now_ms + 1):
            return None
        return self._counters[uuid].read(self._signal(card.index, now_ms), now_ms)

    def processes(self, uuid: str) -> ProcessList:
        """The processes on the GPU at the time of the last reading. Raises SourceError while it is
        lost.
        """
        card = self._reachable(uuid)
        signal = self._signal(card.index, self._now_ms)
        if signal is None:
            return []
        role = signal.role(card.index)
        memory_bytes = int(memory_used(card.hardware, signal, role, self._now_ms / 1000))
        process = ProcessReading(process_id(signal.job, card.index), memory_bytes)
        return [process] if memory_bytes else []

    def events(self, now_ms: int) -> List[Event]:
        """What the driver says of the faulty GPU since the last call; at first also that it is lost
        already.
        """
        events = self.events_between(self._events_ms + 1, now_ms + 1)
        self._events_ms = max(self._events_ms, now_ms)
        return events

    def events_between(self, start_ms: int, end_ms: int) -> List[Event]:
        """What the driver says of the faulty GPU in [start, end)."""
        faulty = self.spec.faulty
        if faulty is None:
            return []
        return events_between(self.spec, self.cards[faulty].uuid, start_ms, end_ms)

    def close(self) -> None:
        """Nothing is held."""

    def workloads(self, otherwise: Callable[[], Workloads]) -> Workloads:
        """The schedule's own: the host knows nothing of these GPUs."""
        return self

    def resolve(
        self, processes: Processes, *, gpus: Sequence[GPUInfo], start_ms: int, end_ms: int
    ) -> Workload:
        """The schedule's jobs in the window, and whose the processes are."""
        jobs = jobs_between(self.spec, start_ms, end_ms)
        guests = self._guests(jobs, max(start_ms, end_ms - FACTS_MS), end_ms)
        held = [describe(job, end_ms) for job in jobs if job.archetype.is_allocated]
        gpus_of = {job.key: job.gpus for job in jobs}
        allocations = [
            Allocation(self.cards[gpu].uuid, job.key, "slurm", job.start_ms, job.end_ms, 1.0)
            for job in held
            for gpu in gpus_of[job.key]
        ]
        return Workload(
            jobs=held,
            allocations=allocations,
            processes=self._owned(jobs, processes),
            sources=[SourceStatus("slurm", ok=True, seen_ms=end_ms)],
            facts=self._facts(guests),
            host=_rounded(host_columns(guests, gpus=self.spec.count)),
            pending_gpus=pending_gpus(self.spec.cluster, start_ms) if self.spec.queue else None,
        )

    def _owned(self, jobs: Sequence[SimulatedJob], processes: Processes) -> List[Process]:
        """Those of the processes that are of the jobs."""
        return [
            _process(job, self.cards[gpu].uuid, process)
            for job in jobs
            for gpu in job.gpus
            for process in processes.get(self.cards[gpu].uuid) or ()
            if process.pid == process_id(job, gpu)
        ]

    def _guests(self, jobs: Sequence[SimulatedJob], start_ms: int, end_ms: int) -> List[Guest]:
        """The jobs that are there for all of that time."""
        here = [job for job in jobs if job.start_ms <= start_ms and end_ms <= job.end_ms]
        signals = [self._signals.get(job.number) or Signal(job) for job in here]
        span = start_ms / 1000, end_ms / 1000
        return [Guest(signal, signal.shares(*span)) for signal in signals]

    def _facts(self, guests: Sequence[Guest]) -> Dict[str, Values]:
        """GPU -> what its holder did with the node's processors and disks."""
        return {
            self.cards[gpu].uuid: _rounded(job_columns(guest, guest.signal.role(gpu)))
            for guest in guests
            if guest.signal.job.archetype.is_allocated
            for gpu in guest.signal.job.gpus
        }

    def _reachable(self, uuid: str) -> Card:
        card = self._counters[uuid].card
        if card.index == self.spec.faulty and faults_between(
            self.spec, self._now_ms, self._now_ms + 1
        ):
            raise SourceError("GPU is lost")
        return card

    def _signal(self, gpu: int, at_ms: int) -> Optional[Signal]:
        """Of the job that is on the GPU then; None: it is free."""
        for signal in self._signals.values():
            if signal.job.start_ms <= at_ms < signal.job.end_ms and gpu in signal.job.gpus:
                return signal
        jobs = [job for job in jobs_between(self.spec, at_ms, at_ms + 1) if gpu in job.gpus]
        if not jobs:
            return None
        self._signals = {
            number: signal for number, signal in self._signals.items() if signal.job.end_ms > at_ms
        }
        return self._signals.setdefault(jobs[0].number, Signal(jobs[0]))


class _Counter:
    """What one GPU's driver would remember: energy, temperature, the sample buffer's place."""

    def __init__(self, card: Card, spec: Spec, start_ms: int) -> None:
        self.card = card
        self._is_faulty = card.index == spec.faulty
        self._spec = spec
        self._at_ms = start_ms
        self._energy_j = 0.0
        self._temperature_c: Optional[float] = None

    def read(self, signal: Optional[Signal], now_ms: int) -> Optional[Reading]:
        """The reading at now_ms, which lies after the last one; None when it does not."""
        if now_ms <= self._at_ms:
            return None
        since_ms = self._at_ms
        self._at_ms = now_ms
        return self._reading(signal, since_ms, now_ms)

    def _reading(self, signal: Optional[Signal], since_ms: int, now_ms: int) -> Reading:
        seen, factor = self._seen(signal, since_ms, now_ms)
        means = _rounded(scaled(seen, factor))
        power_w = self._power_w(seen["power_w"] * factor)
        passed_s = (now_ms - since_ms) / 1000
        self._energy_j += power_w * passed_s
        temperature_c = self._warm(signal, power_w, passed_s)
        samples = self._samples(signal, since_ms, now_ms)
        return Reading(
            at_ms=now_ms,
            util=samples[-1][1] if samples else 0.0,
            util_samples=samples,
            memory_util=means.get("dram_active"),
            memory_used_bytes=int(seen["memory_used_bytes"]),
            memory_reserved_bytes=RESERVED_BYTES,
            power_w=round(power_w, 3),
            energy_j=round(self._energy_j, 3),
            temperature_c=round(temperature_c, 1),
            memory_temperature_c=round(temperature_c + MEMORY_WARMER_C, 1),
            sm_clock_hz=seen["sm_clock_hz"],
            ecc_uncorrected=ecc_errors(self._spec, now_ms) if self._is_faulty else 0,
            means=means,
        )

    def _seen(self, signal: Optional[Signal], since_ms: int, now_ms: int) -> Tuple[Shown, float]:
        """What a usual board would show, and by what this one's activity differs from it."""
        start_s = since_ms / 1000
        end_s = now_ms / 1000
        if signal is None:
            return bare(self.card.hardware), 1.0 + JITTER * waves.noise(end_s, self.card.index)
        role = signal.role(self.card.index)
        shares = signal.shares(start_s, end_s)
        seen = shown(self.card.hardware, signal, role, shares, start_s=start_s, end_s=end_s)
        return seen, signal.factor(self.card.index)

    def _power_w(self, usual_w: float) -> float:
        """Watts of this board, which differs from a usual one."""
        power_w = usual_w + self.card.idle_w - bare_w(self.card.hardware)
        return min(power_w, MOST_POWER * self.card.hardware.power_limit_w)

    def _warm(self, signal: Optional[Signal], power_w: float, passed_s: float) -> float:
        """First-order lag towards the temperature that fits the power; a throttled job has its
        own.
        """
        aim_c: float = temperature_c(self.card.hardware, power_w)
        before_c = aim_c if self._temperature_c is None else self._temperature_c
        self._temperature_c = before_c + (aim_c - before_c) * min(1.0, passed_s / WARMING_S)
        if signal is None or not signal.traits.thermal_share:
            return self._temperature_c
        hot: float = hot_c(signal.traits, self._at_ms / 1000 - signal.start_s)
        return hot

    def _samples(
        self, signal: Optional[Signal], since_ms: int, now_ms: int
    ) -> List[Tuple[int, float]]:
        """Samples of the driver's buffer that ended in (since_ms, now_ms], (microseconds, ratio in
        whole percent).
        """
        last = now_ms * SAMPLES_PER_S // 1000
        first = max(since_ms * SAMPLES_PER_S // 1000, last - BUFFER_SAMPLES) + 1
        return [
            (number * 1_000_000 // SAMPLES_PER_S, self._sample(signal, number))
            for number in range(first, last + 1)
        ]

    def _sample(self, signal: Optional[Signal], number: int) -> float:
        if signal is None:
            return 0.0
        shares = signal.shares((number - 1) / SAMPLES_PER_S, number / SAMPLES_PER_S)
        return round(float(utilisation(signal, signal.role(self.card.index), shares, number)), 2)


def _rounded(columns: Values) -> Values:
    """As a driver or a kernel would; a share is at most 1."""
    return {
        name: round(min(1.0, value), 4)
        if name in GPM_COLUMNS or name.endswith("_ratio")
        else float(round(value))
        for name, value in columns.items()
    }


def process_id(job: SimulatedJob, gpu: int) -> int:
    """The pid of the job's process on that GPU."""
    return 2_000 + (job.number * 16 + gpu) % 4_000_000


def describe(job: SimulatedJob, at_ms: int) -> Job:
    """The job as its scheduler would describe it at that time."""
    has_ended = job.end_ms <= at_ms
    request = request_of(job)
    return Job(
        key=job.key,
        scheduler="slurm",
        cluster=job.cluster,
        id=str(job.number),
        name=job.name,
        user=job.user,
        account=job.account,
        kind=job.archetype.kind,
        state="COMPLETED" if has_ended else "RUNNING",
        submit_ms=request.submit_ms,
        start_ms=job.start_ms,
        end_ms=job.end_ms if has_ended else None,
        labels=request.labels,
    )


def _process(job: SimulatedJob, uuid: str, process: ProcessReading) -> Process:
    """A process of the job; what a job left behind hangs in the driver and belongs to nobody."""
    is_held = job.archetype.is_allocated
    return Process(
        uuid=uuid,
        pid=process.pid,
        job_key=job.key if is_held else None,
        started_ms=job.start_ms + PROCESS_AFTER_S * 1000,
        user=job.user,
        name=job.archetype.process,
        state="S" if is_held else "D",
        memory_bytes=process.memory_bytes,
    )
