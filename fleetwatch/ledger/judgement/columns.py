"""The columns that judging fills, table after table, and what their numbers mean. Pure numpy.

A window is a row of what was observed. A segment is the time of one GPU within which window, cut
and holders do not change. A timeline is one holder's view of its GPU's segments, or nobody's. A
stretch is what of a timeline is alike. A place is a segment of a timeline that was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.judgement.labels import (
    LABEL_SHIFT,
    SIGNAL_MASK,
    SOURCE_MASK,
    SOURCE_SHIFT,
    SPINNING,
    STARTING,
    UNDERUSED,
    USEFUL,
    Codes,
    Kinds,
    Label,
    numbers,
)
from fleetwatch.ledger.judgement.observations import (
    DRAINED,
    Floats,
    Ints,
    Mask,
    Outage,
    Question,
    Spans,
)

# What a window, or none, is to a holder; and a segment to a timeline.
BARRIER, GAP, QUIET, BLIP, BUSY = range(5)
# What a quiet stretch is part of: no run, one that is too short to be idle, that is idle, that is
# a job's start.
NO_RUN, STALLED_RUN, IDLE_RUN, STARTING_RUN = range(4)


def changes(values: NDArray[Any]) -> Mask:
    """Where a value is not the one before it; the first one counts."""
    return np.append(True, values[1:] != values[:-1])


def of_rows(values: NDArray[Any], row: Ints, *, none: int = 0) -> NDArray[Any]:
    """A value per window for each of these windows; `none` where there is none (row -1)."""
    if not len(values):
        return np.full(len(row), none, dtype=values.dtype)
    # much faster than an index, and than one value more at the end
    own: NDArray[Any] = values.take(row, mode="wrap")
    own[row < 0] = none
    return own


_WITH_SOURCE = SIGNAL_MASK | SOURCE_MASK
_USEFUL, _UNDERUSED, _STARTING = numbers((USEFUL, UNDERUSED, STARTING)) << LABEL_SHIFT
_SPINNING = numbers(SPINNING) << LABEL_SHIFT


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read of each window, compared with thresholds, before anything is concluded."""

    fraction: Floats  # as the first signal told it, NaN unread
    peak: Floats
    signal: Codes
    engines: Floats  # share of the busiest one, NaN unread or noise
    power_ratio: Floats
    near_idle: Mask
    works: Mask  # units or engines were read above noise, whatever utilisation says
    shows_work: Mask  # they, links or power were
    phantom: Mask  # load that nobody makes

    @property
    def contradicted(self) -> Mask:
        """Where work is shown, whatever the activity signal says."""
        return self.shows_work & ~self.phantom


@dataclass(frozen=True, slots=True)
class Activity:
    """One value per window. Where `unseen` is not 0 the rest but `context` means nothing."""

    evidence: Evidence
    unseen: Codes
    quiet: Mask
    blip: Mask
    zero: Mask  # activity was exactly 0
    active: Floats  # a: share of time with a kernel running, 0 to 1
    spinning: Floats  # share of time busy-waiting, at most a
    working: Floats  # w: share of time at work, spinning left out
    efficiency: Floats  # e of the working fraction w = a - spinning
    efficiency_source: Codes
    spin_unresolved: Mask
    context: Codes

    @property
    def code(self) -> Codes:
        """What each window is to a holder: a gap, quiet, a blip, or busy."""
        code = np.full(len(self.quiet), BUSY, dtype=np.int8)
        code[self.blip] = BLIP
        code[self.quiet] = QUIET
        code[self.unseen != 0] = GAP
        return code

    @property
    def shade(self) -> Codes:
        """What each says of idle time: the context, and whether activity was exactly 0."""
        return 2 * self.context + self.zero

    @property
    def signal_and_source(self) -> Kinds:
        """Both as in a kind; no source of efficiency where it is quiet."""
        source = np.where(self.quiet, np.int16(0), self.efficiency_source)
        return (source << SOURCE_SHIFT) + self.evidence.signal


@dataclass(frozen=True, slots=True)
class Holder:
    """A job on a GPU: when it held it, and its milliseconds of each segment where it did."""

    job_id: int
    kind: str
    spans: list[tuple[int, int]]
    held: Mask
    gpu_ms: Ints


class Schedulers(NamedTuple):
    """When every job scheduler of a node that reported answered, and when one did not."""

    answered: Spans
    unknown: Spans


@dataclass(frozen=True, slots=True)
class Member:
    """A GPU or MIG instance: its segments, who held them, and the time that nobody did."""

    gpu_id: int
    start_ms: Ints
    end_ms: Ints
    cut: Ints  # position in the question's cuts
    row: Ints  # of the window that speaks, -1: none
    energy_row: Ints  # the window whose energy counts: a MIG instance's is its parent's
    holders: list[Holder]
    held: Ints  # by how many
    rest_ms: Ints
    rest_is_free: Mask  # what MIG instances leave of their parent
    outages: list[Outage]
    first_ms: int
    live_end_ms: int | None
    silent_ms: int  # from then on its node gave no sign of life
    schedulers: Schedulers


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of all members, one member after the other, with what their windows say."""

    members: Sequence[Member]
    first: list[int]  # each member's first segment; after the last one, how many there are
    start_ms: Ints
    end_ms: Ints
    cut: Ints
    row: Ints  # of the window that speaks, -1: none
    energy_row: Ints  # of the window whose energy counts
    rest_ms: Ints  # what nobody holds
    held: Ints  # by how many
    rest_is_free: Mask
    down: Codes  # label of the outage, -1: none
    joules_per_ms: Floats  # 0 where it was not read
    is_metered: Mask
    is_by_power: Mask  # the counter's joules are more than the board can draw: watts stand for them
    labels: tuple[Label, ...]  # by their numbers

    def of_members(self, values: Sequence[int]) -> Ints:
        """A value per member for each of its segments."""
        return np.repeat(np.array(values, dtype=np.int64), np.diff(self.first))

    @property
    def is_unobserved(self) -> Mask:
        """Which labels say so, by their numbers."""
        return np.array([label.state == "unobserved" for label in self.labels], dtype=bool)

    @property
    def is_down(self) -> Mask:
        """Which have an outage that a holder suffers: under a drain what is held goes on."""
        is_drain = np.array([label.reason == DRAINED for label in self.labels])
        return np.asarray((self.down >= 0) & ~is_drain[self.down])


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose time a timeline is: a job's (NOBODY: nobody's) on a member, which it held over the
    spans; and the segments of the timeline.
    """

    member: Member
    job_id: int
    kind: str
    spans: Spans
    segment: Ints
    is_own: Mask  # of the owner, not only beside it
    gpu_ms: Ints  # of what is its own


@dataclass(frozen=True, slots=True)
class Timelines:
    """All timelines of a node, what nobody holds first; one value per position, which is a segment
    in a timeline.
    """

    owners: Sequence[Owner]
    segments: Segments
    bridges: Floats  # of each window the longest gap after it that a run continues across
    unallocated: int  # how many positions are in timelines of nobody
    label: Kinds  # of these positions; means nothing where it is not its own
    timeline: Ints
    segment: Ints
    is_own: Mask
    gpu_ms: Ints
    is_down: Mask  # an outage that a holder suffers
    code: Codes

    @property
    def first(self) -> Ints:
        """Each timeline's first position; after the last one, how many there are."""
        return np.cumsum([0, *(len(owner.segment) for owner in self.owners)])

    def row(self, position: Ints) -> Ints:
        """The window that speaks there, -1: none."""
        return self.segments.row.take(self.segment.take(position))

    def start_ms(self, position: Ints) -> Ints:
        """When the segments at these positions begin."""
        return self.segments.start_ms.take(self.segment.take(position))

    def end_ms(self, position: Ints) -> Ints:
        """When they end."""
        return self.segments.end_ms.take(self.segment.take(position))

    def bridge_ms(self, position: Ints) -> Floats:
        """The longest gap after them that a run continues across."""
        return np.asarray(of_rows(self.bridges, self.row(position)))


@dataclass(frozen=True, slots=True)
class Stretches:
    """The longest stretches of one code in one timeline, and the quiet runs that they are part of.

    `closed`: the codes with every gap that no run continues across turned into a barrier.
    """

    first: Ints  # positions
    last: Ints
    timeline: Ints
    code: Codes
    closed: Codes
    start_ms: Ints
    end_ms: Ints
    is_first: Mask  # of its timeline
    is_last: Mask
    run: Ints  # -1: none
    verdict: Codes
    run_start_ms: Ints
    run_end_ms: Ints

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value per stretch for each of its positions."""
        return np.repeat(values, self.last + 1 - self.first)

    def at(self, position: Ints) -> Ints:
        """The stretch that each position is in."""
        return np.searchsorted(self.first, position, side="right") - 1


@dataclass(frozen=True, slots=True)
class Judged:
    """The places, one timeline after the other, in order of time, with their milliseconds; and all
    that these rest on.
    """

    question: Question
    activity: Activity
    segments: Segments
    timelines: Timelines
    stretches: Stretches
    position: Ints  # in the timelines
    timeline: Ints
    segment: Ints
    condition: Codes
    joins_previous: Mask  # the run of the place before goes on here
    kind: Kinds  # of what is left of it; with the source of efficiency where it was active too
    rest_ms: Ints
    busy: Ints  # the places with activity
    active_ms: Sequence[Ints]  # useful, underused, spinning, of each of them
    starting: Ints  # the places in runs that start
    starting_ms: Ints
    stall_tier: Ints  # of each timeline

    def amounts(self) -> list[tuple[Ints, Ints]]:
        """(places, milliseconds there) in columns: the rest, useful, underused, spinning, starting.

        No kind is in two of them.
        """
        active = [(self.busy, gpu_ms) for gpu_ms in self.active_ms]
        rest = (np.arange(len(self.position)), self.rest_ms)
        return [rest, *active, (self.starting, self.starting_ms)]

    def kinds(self, rest: Ints, busy: Ints, starting: Ints) -> list[Kinds]:
        """The kinds by column of these places."""
        kind = self.kind[busy]
        by_source = kind & np.int16(_WITH_SOURCE)
        signal = kind & np.int16(SIGNAL_MASK)
        return [
            self.kind[rest] & ~np.int16(SOURCE_MASK),
            by_source + _USEFUL,
            by_source + _UNDERUSED,
            signal + _SPINNING[self.stall_tier[self.timeline[busy]]],
            (self.kind[starting] & np.int16(SIGNAL_MASK)) + _STARTING,
        ]
