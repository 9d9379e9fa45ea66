"""What one simulated job does to its GPUs: for a reading of a live agent (floats) and for a span of
history (numpy arrays).
"""

from functools import lru_cache, partial
from typing import Any, Callable, List, Sequence, Tuple

from agent.sources.simulated import waves
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.traits import IDLE, NEVER_S, Traits, draw_traits

KEPT_SPANS = 32
PROCESS_AFTER_S = 4  # a job's processes appear this long after its start
SAWTOOTH_C = 4.0

# Of a time: at HIGH, LOW, PAUSE, ONSET, WARMUP; they sum to 1; floats or arrays.
Shares = Tuple[Any, ...]
# waves.between, or numpy.interp
Interpolate = Callable[[Any, Sequence[float], Sequence[float]], Any]


def shares(traits: Traits, left_s: Any, right_s: Any, *, working: Any = None) -> Shares:
    """Which parts of [left, right), seconds since its start, a job spends at each level; for floats
    and arrays.

    The same for all its ranks: they wait for each other. Spans are meant to be short against a
    pause. `working` is the part of them inside a burst, for a job that works in bursts.
    """
    warming = _growth(partial(_warm_seconds, traits), left_s, right_s)
    high = 1.0
    if traits.duty != 1.0:
        high = _high_share(traits, left_s, right_s, period_s=traits.period_s, duty=traits.duty)
    if working is not None:
        return working * high, working * (1.0 - high), 1.0 - warming - working, 0.0, warming
    unpaused, begun = _pauses(traits, left_s, right_s)
    return (
        unpaused * high,
        unpaused * (1.0 - high),
        1.0 - warming - begun,
        begun - unpaused,
        warming,
    )


def _warm_seconds(traits: Traits, at_s: Any) -> Any:
    """Seconds of [0, at_s) that the job warms up."""
    return waves.larger(0.0, waves.smaller(at_s, traits.warmup_s))


def _pauses(traits: Traits, left_s: Any, right_s: Any) -> Tuple[Any, Any]:
    """The parts of the time in which the job runs: not in a pause, and in none or at the onset
    of one.
    """
    running_seconds = partial(
        waves.running_seconds, warmup_s=traits.warmup_s, hangs_after_s=traits.hangs_after_s
    )
    running = _growth(running_seconds, left_s, right_s)
    every_s = traits.pause_every_s
    if every_s >= NEVER_S:
        return running, running
    left_s = left_s - traits.warmup_s
    right_s = right_s - traits.warmup_s
    until = 1.0 - traits.pause_share
    unpaused = running * _high_share(traits, left_s, right_s, period_s=every_s, duty=until)
    if not traits.onset_s:
        return unpaused, unpaused
    until = min(1.0, until + traits.onset_s / every_s)
    return unpaused, running * _high_share(traits, left_s, right_s, period_s=every_s, duty=until)


def _high_share(traits: Traits, left_s: Any, right_s: Any, *, period_s: float, duty: float) -> Any:
    """The part of the time at the high level of a square wave, by a clock of the job's own."""
    left, right = (
        waves.warped(at_s, period_s=period_s, jitter=traits.jitter) for at_s in (left_s, right_s)
    )
    return _growth(partial(waves.high_seconds, period_s=period_s, duty=duty), left, right)


def _growth(seconds: Callable[[Any], Any], left: Any, right: Any) -> Any:
    """By how much a count of seconds grows for each second of its clock."""
    return (seconds(right) - seconds(left)) / (right - left)


def throttled(traits: Traits, left_s: Any, right_s: Any) -> Any:
    """The part of [left, right), seconds since the job's start, for which a thermal limit holds the
    clock down.
    """
    if not traits.thermal_share:
        return 0.0 * left_s
    return _high_share(
        traits, left_s, right_s, period_s=traits.thermal_period_s, duty=traits.thermal_share
    )


def hot_c(traits: Traits, at_s: Any) -> Any:
    """The temperature of a throttled GPU: a sawtooth below its peak, in step with it."""
    period_s = traits.thermal_period_s
    turns = waves.warped(at_s, period_s=period_s, jitter=traits.jitter) / period_s
    return traits.thermal_peak_c - SAWTOOTH_C * (turns - waves.rounds(turns))


def filled(traits: Traits, at_s: Any) -> Any:
    """The part of its memory that a job has filled by then, seconds since its start: all of it when
    it is warm.
    """
    return waves.larger(0.0, waves.smaller(1.0, at_s / traits.warmup_s)) if traits.warmup_s else 1.0


class Signal:
    """One job as its GPUs show it; times are seconds since the epoch."""

    def __init__(self, job: SimulatedJob) -> None:
        self.job = job
        draw = job.draw(job.seed + "/traits")
        self.traits = draw_traits(job.archetype, draw, ranks=len(job.gpus))
        self.start_s = job.start_ms / 1000
        self._burst_curve = lru_cache(KEPT_SPANS)(self._sum_bursts)
        self.shares = lru_cache(KEPT_SPANS)(
            self._shares
        )  # asked for by one rank, wanted by the others too

    def role(self, gpu: int) -> str:
        """What the job's rank on that one of its GPUs does."""
        return self.traits.role(self.job.gpus.index(gpu))

    def factor(self, gpu: int) -> float:
        """What that rank's power and activity differ by from the job's."""
        return self.traits.rank_factors[self.job.gpus.index(gpu)]

    def contexts(self, role: str, at_s: Any) -> Any:
        """1.0 where a process of the job has a context on a GPU of that role, else 0.0; floats or
        arrays.
        """
        has_ever = self.job.archetype.has_process and (
            role != IDLE or self.traits.idle_ranks_have_context
        )
        return (at_s >= self.start_s + PROCESS_AFTER_S) * float(has_ever)

    def shares_between(
        self, start_s: Any, end_s: Any, *, hours: Tuple[int, int], interpolate: Interpolate
    ) -> Shares:
        """Which parts of [start_s, end_s) the job spends at each level; floats or arrays, in these
        hours since the epoch.
        """
        working = None
        if self.traits.mean_gap_s:
            curve = self._burst_curve(*hours)
            working = (interpolate(end_s, *curve) - interpolate(start_s, *curve)) / (
                end_s - start_s
            )
        parts = shares(self.traits, start_s - self.start_s, end_s - self.start_s, working=working)
        return tuple(waves.larger(share, 0.0) for share in parts)

    def _shares(self, start_s: float, end_s: float) -> Shares:
        """As shares_between, of one span; the last ones are kept."""
        hours = int(start_s // waves.HOUR_S), int(end_s // waves.HOUR_S)
        return self.shares_between(start_s, end_s, hours=hours, interpolate=waves.between)

    def _sum_bursts(self, first: int, last: int) -> Tuple[List[float], List[float]]:
        """(times, seconds of bursts done by then) of these hours since the epoch, as points of a
        line.
        """
        kind = self.job.archetype
        warm_s = self.start_s + self.traits.warmup_s
        times = [first * waves.HOUR_S]
        done_s = [0.0]
        for hour in range(first, last + 1):
            for begin_s, end_s in waves.bursts_of_hour(
                self.job.seed,
                hour,
                burst_s=kind.burst_s,
                gap_s=self.traits.mean_gap_s,
                is_diurnal=kind.is_diurnal,
            ):
                if end_s > warm_s:
                    times += [max(begin_s, warm_s), end_s]
                    done_s += [done_s[-1], done_s[-1] + end_s - times[-2]]
        return [*times, (last + 1) * waves.HOUR_S + 1.0], [*done_s, done_s[-1]]
