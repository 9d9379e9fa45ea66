"""When a subject breached a rule: what was measured of it becomes episodes. Pure.

Time is the telemetry's own. The live evaluator and the back-test are both this function: of a
period that is read in pieces, with what fires carried from one to the next, the episodes are those
of the period in one piece (a property test says so).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

FORGET_MS = 24 * 60 * 60_000  # what nobody saw for a day is over

CLEARED = "it is no longer so"
NO_LONGER_SEEN = "no longer seen: no data for 24 hours"


class Level(IntEnum):
    """How a measured value stands to the rule: clear of it, between where it clears and where it
    breaches (hysteresis), or in breach.
    """

    CLEAR = 0
    BETWEEN = 1
    BREACH = 2


class Span(NamedTuple):
    """What was measured over [start_ms, end_ms). Of a month there are many, which a tuple is made
    for.
    """

    start_ms: int
    end_ms: int
    level: Level

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms


def extend(spans: list[Span], span: Span) -> None:
    """Adds the next span; where it goes on from the last one, they are one."""
    last = spans[-1] if spans else None
    if last is not None and last.end_ms == span.start_ms and last.level == span.level:
        spans[-1] = Span(last.start_ms, span.end_ms, span.level)
    else:
        spans.append(span)


@dataclass(frozen=True, slots=True)
class End:
    """From then on there is nothing more of the subject, and why."""

    at_ms: int
    reason: str


class Again(NamedTuple):
    """What rests since then is in breach again at that moment, if nothing changes. `counted_ms`:
    from when on that is counted; later than it began where data is missing in between. `is_gap`:
    nobody saw it otherwise since it was in breach, data is missing between.
    """

    at_ms: int
    since_ms: int
    counted_ms: int
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """By subject its spans, ascending and disjoint: what lies in none of them nobody saw.

    `ends`: subjects that are over. `begun_ms`: since when a subject is there, for the grace at its
    start. `cleared`: what to say when a subject's breach is over, `cleared_of` of these in its
    place. `again`: of what fires and is neither in breach nor clear when it is in breach again.
    """

    spans: Mapping[str, Sequence[Span]]
    ends: Mapping[str, End] = field(default_factory=dict)
    begun_ms: Mapping[str, int] = field(default_factory=dict)
    cleared: str = CLEARED
    cleared_of: Mapping[str, str] = field(default_factory=dict)
    again: Mapping[str, Again] = field(default_factory=dict)

    def cleared_by(self, subject: str) -> str:
        """What to say when the subject's breach is over."""
        return self.cleared_of.get(subject, self.cleared)


@dataclass(frozen=True, slots=True)
class Timing:
    """For how long something is so before it fires, and clear before it is over, in milliseconds.

    `min_coverage`: the share of the time up to the firing that was seen, above 0. `grace_ms`: of a
    subject's start that is not judged.
    """

    duration_ms: int
    min_coverage: float = 1.0
    grace_ms: int = 0
    clear_ms: int = 0

    @property
    def longest_gap_ms(self) -> float:
        """How much may be missing before it fires."""
        return self.duration_ms * (1 / self.min_coverage - 1)

    @property
    def lookback_ms(self) -> int:
        """What must be read before a moment to know whether something fires then."""
        return int(self.duration_ms + self.longest_gap_ms) + self.clear_ms


@dataclass(frozen=True, slots=True)
class Firing:
    """What fired already when the period begins."""

    since_ms: int
    fired_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Episode:
    """One subject in breach since then; until_ms is where the breach was seen last.

    `fired_ms` is when it had lasted as long as the rule asks; None: it is pending. `ended_ms` is
    when it was over, and `reason` why; None: it goes on, or nobody can know. `seen_ms` is until
    when the subject was seen, in breach or not (None: until_ms); `clear_from_ms` since when it is
    clear of the rule, but not yet for as long as that asks (None: it is not).
    """

    subject: str
    since_ms: int
    until_ms: int
    fired_ms: int | None
    ended_ms: int | None = None
    reason: str = ""
    seen_ms: int | None = field(default=None, compare=False)
    clear_from_ms: int | None = field(default=None, compare=False)

    @property
    def known_ms(self) -> int:
        """Until when it is known how the subject stood."""
        return self.until_ms if self.seen_ms is None else max(self.seen_ms, self.until_ms)

    @property
    def lasted_ms(self) -> int:
        return self.until_ms - self.since_ms

    @property
    def fired_or_since_ms(self) -> int:
        """When it fired; of one that is pending when the breach began."""
        return self.since_ms if self.fired_ms is None else self.fired_ms


def episodes(
    measured: Measured,
    timing: Timing,
    *,
    edge_ms: int,
    firing: Mapping[str, Firing] | None = None,
    over_ms: Mapping[str, int] | None = None,
) -> list[Episode]:
    """What fired within the period, or is pending at its end (`edge_ms`), by subject and time.

    `over_ms`: by subject until when its time is another episode's, which is over.
    """
    carried = firing or {}
    counted_ms = over_ms or {}
    result = []
    for subject in sorted(measured.spans.keys() | carried.keys()):
        walk = _Walk(subject, timing, carried.get(subject), cleared=measured.cleared_by(subject))
        grace_ms = measured.begun_ms.get(subject, -timing.grace_ms) + timing.grace_ms
        # what is carried, or over, has the time before: no minute is two episodes'
        judged_ms = max(grace_ms, walk.until_ms, counted_ms.get(subject, grace_ms))
        for span in measured.spans.get(subject, ()):
            walk.take(span, judged_ms, edge_ms)
        result += walk.close(measured.ends.get(subject), edge_ms)
    return result


class _Walk:
    """One subject, span by span."""

    def __init__(
        self, subject: str, timing: Timing, firing: Firing | None, *, cleared: str
    ) -> None:
        self.subject = subject
        self.timing = timing
        self.cleared = cleared
        self.done: list[Episode] = []
        self.since_ms: int | None = firing.since_ms if firing else None
        self.fired_ms: int | None = firing.fired_ms if firing else None
        self.until_ms = self.seen_ms = firing.until_ms if firing else 0
        self.breach_ms = 0
        self.clear_ms = 0
        self.clear_from_ms: int | None = None

    def take(self, span: Span, judged_ms: int, edge_ms: int) -> None:
        """The next span; of its time before `judged_ms`, or after the edge, nothing is said."""
        start_ms = max(span.start_ms, judged_ms)
        end_ms = min(span.end_ms, edge_ms)
        if start_ms >= end_ms:
            return
        if self.fired_ms is not None and start_ms - self.seen_ms >= FORGET_MS:
            self._end(self.until_ms, NO_LONGER_SEEN)
        self.seen_ms = end_ms
        if span.level == Level.BREACH:
            self._breach(start_ms, end_ms)
        elif self.fired_ms is None:
            self.since_ms = None
        elif span.level == Level.CLEAR:
            self._clear(start_ms, end_ms)
        else:
            self._go_on()

    def close(self, end: End | None, edge_ms: int) -> list[Episode]:
        """All episodes, the last one ended where its subject did, if that is before the edge."""
        end = end if end is not None and end.at_ms <= edge_ms else None
        if self.since_ms is not None and self.fired_ms is not None and end is not None:
            self._end(max(end.at_ms, self.until_ms), end.reason)
        elif self.fired_ms is not None and self.seen_ms <= edge_ms - FORGET_MS:
            self._end(self.until_ms, NO_LONGER_SEEN)
        elif self.since_ms is not None and end is None:
            self.done.append(self._episode())
        return self.done

    def _breach(self, start_ms: int, end_ms: int) -> None:
        if self.since_ms is None or self._is_too_patchy(start_ms):
            self.since_ms = start_ms
            self.breach_ms = 0
        self.breach_ms += end_ms - start_ms
        if self.fired_ms is None and self.breach_ms >= self.timing.duration_ms:
            self.fired_ms = end_ms - (self.breach_ms - self.timing.duration_ms)
        self.until_ms = end_ms
        self._go_on()

    def _is_too_patchy(self, start_ms: int) -> bool:
        """Whether more is missing since it began than may be."""
        if self.fired_ms is not None or self.since_ms is None:
            return False
        return start_ms - self.since_ms - self.breach_ms > self.timing.longest_gap_ms

    def _clear(self, start_ms: int, end_ms: int) -> None:
        if self.clear_from_ms is None:
            self.clear_from_ms = start_ms
        self.clear_ms += end_ms - start_ms
        if self.clear_ms >= self.timing.clear_ms:
            self._end(self.clear_from_ms, self.cleared)

    def _go_on(self) -> None:
        self.clear_ms = 0
        self.clear_from_ms = None

    def _end(self, ended_ms: int, reason: str) -> None:
        self.done.append(self._episode(ended_ms, reason))
        self.since_ms = self.fired_ms = None
        self._go_on()

    def _episode(self, ended_ms: int | None = None, reason: str = "") -> Episode:
        since_ms = self.since_ms or 0
        return Episode(
            subject=self.subject,
            since_ms=since_ms,
            until_ms=self.until_ms,
            fired_ms=self.fired_ms,
            ended_ms=ended_ms,
            reason=reason,
            seen_ms=self.seen_ms,
            clear_from_ms=self.clear_from_ms,
        )
