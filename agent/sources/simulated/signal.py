"""What one simulated job does to its GPUs, second by second."""

from bisect import bisect_right
from typing import Any, Dict, List, NamedTuple, Tuple

from agent.sources.simulated import waves
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.traits import IDLE, NO_PAUSES_S, DrawnLevel, Traits, draw_traits

NEVER_EPOCH_S = 1e12
KEPT_SPANS = 32
PROCESS_AFTER_MS = 4_000  # a job's processes appear this long after its start
HOT_C, SAWTOOTH_C = 83.0, 4.0

# of a time: at HIGH, LOW, PAUSE, ONSET, WARMUP; they sum to 1; floats or arrays
Shares = Tuple[Any, ...]


class Progress(NamedTuple):
    """How far a job is at some time: seconds of it by then, as the wall and as its own two clocks
    count; floats or arrays.
    """

    at_s: Any
    warm_s: Any
    run_s: Any
    step_clock_s: Any
    high_s: Any
    pause_clock_s: Any
    unpaused_s: Any
    begun_s: Any  # unpaused or at the onset of a pause


def progress(traits: Traits, at_s: Any, *, is_settled: bool = False) -> Progress:
    """How far the job is at_s seconds after its start; settled: only differences of times past its
    warm-up and before a hang matter.
    """
    step_clock_s = high_s = at_s
    if traits.duty < 1.0:
        step_clock_s = waves.warped(at_s, period_s=traits.period_s, jitter=traits.jitter)
        high_s = waves.high_seconds(step_clock_s, period_s=traits.period_s, duty=traits.duty)
    pause_clock_s = unpaused_s = begun_s = at_s
    if traits.pause_every_s < NO_PAUSES_S:
        every_s, until = traits.pause_every_s, 1.0 - traits.pause_share
        pause_clock_s = waves.warped(at_s - traits.warmup_s, period_s=every_s, jitter=traits.jitter)
        unpaused_s = begun_s = waves.high_seconds(pause_clock_s, period_s=every_s, duty=until)
        if traits.onset_s:
            begun_s = waves.high_seconds(
                pause_clock_s, period_s=every_s, duty=min(1.0, until + traits.onset_s / every_s)
            )
    if is_settled:
        return Progress(at_s, 0.0, at_s, step_clock_s, high_s, pause_clock_s, unpaused_s, begun_s)
    run_s = waves.running_seconds(
        at_s, warmup_s=traits.warmup_s, hangs_after_s=traits.hangs_after_s
    )
    warm_s = waves.larger(0.0, waves.smaller(at_s, traits.warmup_s))
    return Progress(at_s, warm_s, run_s, step_clock_s, high_s, pause_clock_s, unpaused_s, begun_s)


def shares(before: Progress, after: Progress, *, working: Any = None) -> Shares:
    """Which parts of the time between two points a job spends at each level; for floats and arrays.

    The same for all its ranks: they wait for each other. Spans are meant to be short against a
    pause. `working` is the part of them inside a burst, for a job that works in bursts.
    """
    warming = _part(before.warm_s, after.warm_s, before.at_s, after.at_s)
    high = _part(before.high_s, after.high_s, before.step_clock_s, after.step_clock_s)
    if working is not None:
        return working * high, working * (1.0 - high), 1.0 - warming - working, 0.0, warming
    running = _part(before.run_s, after.run_s, before.at_s, after.at_s)
    unpaused = running * _part(
        before.unpaused_s, after.unpaused_s, before.pause_clock_s, after.pause_clock_s
    )
    begun = unpaused
    if before.begun_s is not before.unpaused_s:
        begun = running * _part(
            before.begun_s, after.begun_s, before.pause_clock_s, after.pause_clock_s
        )
    return (
        unpaused * high,
        unpaused * (1.0 - high),
        1.0 - warming - begun,
        begun - unpaused,
        warming,
    )


def _part(before_s: Any, after_s: Any, clock_before_s: Any, clock_after_s: Any) -> Any:
    """By how much a count of seconds grew for each second of a clock; 1 where it is that clock."""
    if after_s is clock_after_s:
        return 1.0
    return (after_s - before_s) / (clock_after_s - clock_before_s)


def throttled(traits: Traits, left_s: Any, right_s: Any) -> Any:
    """The part of [left, right), seconds since the job's start, for which a thermal limit holds the
    clock down.
    """
    if not traits.thermal_share:
        return 0.0 * left_s
    left_s, right_s = (
        waves.warped(at_s, period_s=traits.thermal_period_s, jitter=traits.jitter)
        for at_s in (left_s, right_s)
    )
    done_s = [
        waves.high_seconds(at_s, period_s=traits.thermal_period_s, duty=traits.thermal_share)
        for at_s in (left_s, right_s)
    ]
    return (done_s[1] - done_s[0]) / (right_s - left_s)


def hot_c(traits: Traits, at_s: Any) -> Any:
    """The temperature of a throttled GPU: a sawtooth below its peak, in step with the
    throttling.
    """
    turns = (
        waves.warped(at_s, period_s=traits.thermal_period_s, jitter=traits.jitter)
        / traits.thermal_period_s
    )
    return traits.thermal_peak_c - SAWTOOTH_C * (turns - waves.rounds(turns))


def filled(traits: Traits, at_s: Any) -> Any:
    """The part of its memory that a job has filled by then, seconds since its start: all of it when
    it is warm.
    """
    return waves.larger(0.0, waves.smaller(1.0, at_s / traits.warmup_s)) if traits.warmup_s else 1.0


class Signal:
    """Shares of time at each level for one job; keeps the bursts of the hours it was asked for."""

    def __init__(self, job: SimulatedJob) -> None:
        self.job = job
        self.traits = draw_traits(
            job.archetype,
            job.seed,
            ranks=len(job.gpus),
            spread=job.spread,
            is_outside=job.is_outside,
        )
        self.start_s = job.start_ms / 1000
        self._bursts: Dict[int, List[Tuple[float, float]]] = {}
        # asked for by one rank, wanted by the others too
        self._recent: Dict[Tuple[float, float], Shares] = {}

    def role(self, gpu: int) -> str:
        """What the job's rank on that one of its GPUs does."""
        return self.traits.role(self.job.gpus.index(gpu))

    def factor(self, gpu: int) -> float:
        """What that rank's power and activity differ by from the job's."""
        return self.traits.rank_factors[self.job.gpus.index(gpu)]

    def levels(self, gpu: int) -> Tuple[DrawnLevel, ...]:
        """The levels that the job's rank on that GPU shows."""
        return self.traits.levels_of(self.role(gpu))

    def is_busy(self, gpu: int) -> bool:
        """Whether the job ever works on that one of its GPUs."""
        return self.role(gpu) != IDLE

    def has_context(self, gpu: int, at_ms: int) -> bool:
        """Whether a process of the job has a context on that GPU at that time."""
        if not self.job.archetype.has_process or at_ms < self.job.start_ms + PROCESS_AFTER_MS:
            return False
        return self.is_busy(gpu) or self.traits.idle_ranks_have_context

    def shares(self, start_s: float, end_s: float) -> Shares:
        """Which parts of [start_s, end_s), seconds since the epoch, the job spends at each
        level.
        """
        found = self._recent.get((start_s, end_s))
        if found is None:
            if len(self._recent) >= KEPT_SPANS:
                self._recent.clear()
            found = self._recent[start_s, end_s] = self._shares(start_s, end_s)
        return found

    def _shares(self, start_s: float, end_s: float) -> Shares:
        working = None
        if self.traits.mean_gap_s:
            working = self._burst_s(max(start_s, self.start_s + self.traits.warmup_s), end_s) / (
                end_s - start_s
            )
        before, after = (progress(self.traits, at_s - self.start_s) for at_s in (start_s, end_s))
        return tuple(max(0.0, share) for share in shares(before, after, working=working))

    def _burst_s(self, start_s: float, end_s: float) -> float:
        """Seconds of [start_s, end_s) inside bursts."""
        total_s = 0.0
        for hour in range(int(start_s // waves.HOUR_S), int(end_s // waves.HOUR_S) + 1):
            bursts = self._hour(hour)
            for burst_start, burst_end in bursts[
                max(0, bisect_right(bursts, (start_s, NEVER_EPOCH_S)) - 1) :
            ]:
                if burst_start >= end_s:
                    break
                total_s += max(0.0, min(burst_end, end_s) - max(burst_start, start_s))
        return total_s

    def _hour(self, hour: int) -> List[Tuple[float, float]]:
        """The bursts of an hour since the epoch."""
        if hour not in self._bursts:
            self._bursts = {
                known: bursts for known, bursts in self._bursts.items() if known >= hour - 2
            }
            self._bursts[hour] = bursts_of(self.job, self.traits, hour)
        return self._bursts[hour]


def bursts_of(job: SimulatedJob, traits: Traits, hour: int) -> List[Tuple[float, float]]:
    """The job's bursts (start, end), seconds since the epoch, in one hour since the epoch."""
    kind = job.archetype
    if kind.burst_s is None:
        return []
    return waves.bursts_of_hour(
        job.seed, hour, burst_s=kind.burst_s, gap_s=traits.mean_gap_s, is_diurnal=kind.is_diurnal
    )
