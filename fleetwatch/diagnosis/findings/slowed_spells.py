"""Each time in which GPUs were slowed without a break, with what was read of them then."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.diagnosis.causes.throttled import THROTTLED
from fleetwatch.diagnosis.judgement.cell_figures import BUSY
from fleetwatch.diagnosis.slowed_cells import goes_on, otherwise_until, slowed_parts
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.spans import Span, union
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.steps import StepSeries

MAX_SPELLS = 8  # the newest; each is a read of windows
COLUMNS = ("util_mean", "sm_clock_hz", "sm_clock_max_hz", "temperature_c")
LIMITS = {"throttle_thermal_ratio": "heat", "throttle_power_ratio": "power"}


@dataclass(frozen=True, slots=True)
class Spell:
    """`end_ms` None: it is slowed still; `is_cut`: it was slowed before `start_ms` too, where the
    period begins. `clock` is the lowest share of its highest clock while it was busy,
    `temperature_c` the hottest, both of five minutes; None = not read. `limits` are those that its
    driver counted as holding it down for THROTTLED of the time.
    """

    gpu: GPU
    start_ms: int
    end_ms: int | None
    clock: float | None
    temperature_c: int | None
    limits: frozenset[str] = frozenset()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Spells:
    """The newest, the last one first, and how many there were in all."""

    shown: Sequence[Spell] = ()
    count: int = 0

    @property
    def limits(self) -> list[str]:
        """What held the clock down in some of those that are shown: "heat", "power", or both."""
        return [name for name in LIMITS.values() if any(name in each.limits for each in self.shown)]

    @property
    def hottest(self) -> str:
        """The hottest of each, "88–89 °C"; "" where no temperature was read."""
        read = {each.temperature_c for each in self.shown if each.temperature_c is not None}
        return f"{'–'.join(map(str, sorted({min(read), max(read)})))} °C" if read else ""


def slowed_spells(gpus: Iterable[GPU], interval: Interval, *, now: datetime) -> Spells:
    """Those of the GPUs that touch the period, as far as they lie in it."""
    by_id = {gpu.pk: gpu for gpu in gpus}
    every = _every(by_id, interval) if by_id else []
    still = _still(every[:MAX_SPELLS], to_ms(now))
    shown = [_spell(each, interval.start_ms, is_still=each in still) for each in every[:MAX_SPELLS]]
    return Spells(shown, len(every))


def _every(by_id: Mapping[int, GPU], interval: Interval) -> list[tuple[GPU, Span]]:
    """When each was slowed without a break; the last one first."""
    # one that goes on from before is known by the five minutes before
    parts = slowed_parts(list(by_id), interval.start_ms - CELL_MS, interval.end_ms)
    every = [
        (gpu, span)
        for gpu_id, gpu in by_id.items()
        for span in union(part[:2] for part in parts.get(gpu_id, ()))
        if span[1] > interval.start_ms
    ]
    return sorted(every, key=lambda each: (-each[1][0], each[0].pk))


def _still(every: Sequence[tuple[GPU, Span]], now_ms: int) -> Set[tuple[GPU, Span]]:
    """Those that go on."""
    lately = [each for each in every if goes_on(each[1][1], None, now_ms)]
    otherwise_ms = otherwise_until({gpu.pk: now_ms for gpu, _ in lately})
    return {
        (gpu, span) for gpu, span in lately if goes_on(span[1], otherwise_ms.get(gpu.pk), now_ms)
    }


def _spell(slowed: tuple[GPU, Span], from_ms: int, *, is_still: bool) -> Spell:
    gpu, (begun_ms, end_ms) = slowed
    start_ms = max(begun_ms, from_ms)
    step_s = max(CELL_MS // 1000, gpu.node.window_s)
    read = telemetry.series(gpu, start_ms, end_ms, columns=(*COLUMNS, *LIMITS), step_s=step_s)
    return Spell(
        gpu,
        start_ms,
        None if is_still else end_ms,
        lowest_clock(read),
        max(map(round, _known(read, "temperature_c")), default=None),
        frozenset(name for column, name in LIMITS.items() if _is_held(_known(read, column))),
        is_cut=begun_ms < from_ms,
    )


def _known(read: StepSeries, column: str) -> list[float]:
    return [each for each in read.columns[column] if each is not None]


def _is_held(ratios: Sequence[float]) -> bool:
    return sum(ratios) >= THROTTLED * max(len(ratios), 1)


def lowest_clock(read: StepSeries) -> float | None:
    """By its highest, of steps in which the GPU was busy: one that rests lowers its clock by
    itself. None where there is none.
    """
    columns = [read.columns[name] for name in COLUMNS[:3]]
    ratios = [
        clock / highest
        for util, clock, highest in zip(*columns, strict=True)
        if util is not None and util > BUSY and clock is not None and highest
    ]
    return min(ratios, default=None)
