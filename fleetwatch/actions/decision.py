"""What is to be done next about an incident: nothing, warn, warn again, act. Pure.

Whatever is not known forbids to act. The agent's own windows have the last word (agent/actions).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum

from fleetwatch.lib.intervals import MINUTE_MS

# posting is one or two minutes behind; of what was seen longer ago nothing is believed
FRESH_MS = 5 * MINUTE_MS
UNPRICED = "what it costs is not known"


class Step(Enum):
    """Of the ladder. RECALL: what was asked for is taken back. END: it is over, without anything
    having been done.
    """

    NOTHING = "nothing"
    WARN = "warn"
    WARN_AGAIN = "warn again"
    ACT = "act"
    RECALL = "recall"
    END = "end"


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step, and why there is none, in words; "" where there is one."""

    step: Step
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a policy allows: how long is waited after each warning; how many jobs or nodes an hour,
    and the most that their GPUs may cost an hour together.
    """

    first_wait: timedelta
    second_wait: timedelta
    max_per_hour: int
    max_usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an incident stands now.

    `until_ms` is where its breach was seen last. `muted`: why nobody is told, "" where people are.
    `refusals` are those of its kind, which keep what it is about from being acted on.
    `usd_per_hour` None: a GPU has no rate. `owner` is who is warned, in words, `is_reached` whether
    somebody is and wants to be told; `is_quiet`: these are his quiet hours.
    """

    fires: bool
    until_ms: int
    muted: str
    is_acknowledged: bool
    refusals: tuple[str, ...]
    usd_per_hour: Decimal | None
    is_reached: bool
    is_quiet: bool
    owner: str = "its owner"


@dataclass(frozen=True, slots=True)
class Course:
    """How far the ladder went. `heard`: for how long, quiet hours left out, the warning has been
    delivered; None: it is not. `is_warned_again`: the second one is at least on its way.

    `rests`: why the ladder does not begin, of one that ended before; "" where it may.
    """

    has_begun: bool = False
    heard: timedelta | None = None
    is_warned_again: bool = False
    heard_again: timedelta | None = None
    rests: str = ""


@dataclass(frozen=True, slots=True)
class LastHour:
    """What the policy did within the last hour: how often, and what those GPUs cost an hour
    together.
    """

    count: int = 0
    usd_per_hour: Decimal = Decimal(0)


def next_step(
    standing: Standing, course: Course, limits: Limits, last_hour: LastHour, *, now_ms: int
) -> Decision:
    """The next step by what is known at that moment."""
    never = first_of(refusals(standing))
    if never:
        return Decision(Step.END if course.has_begun else Step.NOTHING, never)
    waits = first_of(_waits(standing, course, now_ms))
    if waits:
        return Decision(Step.NOTHING, waits)
    if not course.has_begun:
        return Decision(Step.WARN)
    return _onward(standing, course, limits, last_hour)


def refusals(standing: Standing) -> Iterable[str]:
    """Why nothing is done about it as long as that is so, in the order in which it counts."""
    yield "" if standing.fires else "it is no longer so"
    yield "it is acknowledged" if standing.is_acknowledged else ""
    yield f"muted: {standing.muted}" if standing.muted else ""
    yield from standing.refusals
    yield "" if standing.usd_per_hour is not None else UNPRICED
    yield "" if standing.is_reached else f"{standing.owner} can't be warned"


def is_interrupted(since_ms: int | None, *, needed_since_ms: int) -> bool:
    """Whether it was not so all the while, by since when it was seen without a gap up to now (None:
    it is not so now).
    """
    return since_ms is None or since_ms > needed_since_ms


def first_of(reasons: Iterable[str]) -> str:
    """The first that holds; "" where none does."""
    return next(filter(None, reasons), "")


def _waits(standing: Standing, course: Course, now_ms: int) -> Iterable[str]:
    is_fresh = now_ms - FRESH_MS <= standing.until_ms
    yield "" if is_fresh else "its telemetry is not fresh"
    yield f"quiet hours of {standing.owner}" if standing.is_quiet else ""
    yield course.rests


def _onward(standing: Standing, course: Course, limits: Limits, last_hour: LastHour) -> Decision:
    """What follows the first warning."""
    if course.heard is None:
        return Decision(Step.NOTHING, "the warning has not arrived")
    if course.heard < limits.first_wait:
        return Decision(Step.NOTHING, f"{standing.owner} was warned and has time to answer")
    if not course.is_warned_again:
        return Decision(Step.WARN_AGAIN)
    if course.heard_again is None:
        return Decision(Step.NOTHING, "the second warning has not arrived")
    if course.heard_again < limits.second_wait:
        return Decision(Step.NOTHING, f"{standing.owner} was warned twice and has time to answer")
    limit = _limit(standing, limits, last_hour)
    return Decision(Step.NOTHING, limit) if limit else Decision(Step.ACT)


def _limit(standing: Standing, limits: Limits, last_hour: LastHour) -> str:
    """Why it has to wait for what was done before; "" where it need not."""
    if last_hour.count >= limits.max_per_hour:
        return f"its policy acted {last_hour.count} times within the hour"
    cut = last_hour.usd_per_hour + (standing.usd_per_hour or Decimal(0))
    if cut > limits.max_usd_per_hour:
        return f"its policy would cut more than ${limits.max_usd_per_hour:,.2f} an hour"
    return ""
