"""Where a GPU was when: pure rules over half-open spans of milliseconds.

A stay is a time in which one node reported the GPU without a gap of GAP_MS. It is made of the
windows that were received, in whatever order they came: stays of one GPU never overlap, and a
late batch of a former node finds its place as if it had come in time.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from fleetwatch.lib.spans import Span, difference, union

# Without a window for so long a stay has ended; so long a former node must be silent before a move
# is believed.
GAP_MS = 10 * 60_000
# Of one GPU with one node: who reports a window each ten minutes makes no more rows than this, and
# slows nobody down.
MAX_STAYS = 20
# A right clock is trusted this far: windows that end later than this after receipt move nothing
# (telemetry.services corrects beyond it).
AHEAD_MS = 2_000


@dataclass(frozen=True, slots=True)
class Reported:
    """What two nodes or more say of one GPU, as one of them sees it."""

    own: list[Span]  # its believed stays
    disputed: list[Span]  # its windows that are not believed
    others: list[Span]  # the believed stays of all other nodes

    def take(self, windows: Iterable[Span], *, may_move: bool) -> "Reported":
        """The same with these windows of the node's own.

        What another node observed stays with that node. What lies after it is believed where the
        GPU is with this node already, or may move to it; time before is believed in any case: a
        late spool, a gap that nobody saw.
        """
        every = union(windows)
        if not self.others:
            return Reported(joined([*self.own, *self.disputed, *every]), [], [])
        own = difference(
            joined([*self.own, *self._believed(every, may_move=may_move)]), self.others
        )
        disputed = difference(joined(difference([*self.disputed, *every], own)), own)
        return Reported(own, disputed, self.others)

    def _believed(self, windows: list[Span], *, may_move: bool) -> list[Span]:
        if may_move or self.is_here:
            return difference([*windows, *self.disputed], self.others)
        there_until = max(end for _, end in self.others)
        return difference([(start, min(end, there_until)) for start, end in windows], self.others)

    @property
    def is_elsewhere(self) -> bool:
        """Whether another node reported the GPU later than this one."""
        return bool(self.own) and any(start > self.own[-1][0] for start, _ in self.others)

    @property
    def is_here(self) -> bool:
        """Whether this node reported the GPU last."""
        return bool(self.own) and all(end <= self.own[-1][0] for _, end in self.others)


def spans_of(starts: Sequence[int], length_ms: int) -> list[Span]:
    """The time that windows of that length cover from the first to the last, parted where none is
    for GAP_MS.
    """
    return joined((start, start + length_ms) for start in starts)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The spans as stays: what lies less than GAP_MS apart is one; of more than MAX_STAYS those
    that lie nearest become one.
    """
    every = union(spans)
    gap_ms = GAP_MS
    stays = _bridged(every, gap_ms)
    while len(stays) > MAX_STAYS:
        gap_ms *= 2
        stays = _bridged(stays, gap_ms)
    return stays


def _bridged(spans: Sequence[Span], gap_ms: int) -> list[Span]:
    stays: list[Span] = []
    for start, end in spans:
        if stays and start - stays[-1][1] < gap_ms:
            stays[-1] = (stays[-1][0], end)
        else:
            stays.append((start, end))
    return stays


def capacity(
    own: Sequence[Span], others: Sequence[Span], end_ms: int | None, gone: Sequence[int] = ()
) -> list[Span]:
    """When a GPU was capacity of the node with the stays `own`: from its first window there until
    it was elsewhere.

    Between two stays with none of another node's in between it was there, and nobody saw it.
    `end_ms` is where the last one ends if the GPU is still there: its retirement, or where the
    node's capacity ends for now; None = not known. `gone`: from when on its node was gone, each
    time until the GPU's next window.
    """
    if not own:
        return []
    spans: list[Span] = []
    for (start, last), following in zip_longest(own, own[1:]):
        next_ms = math.inf if following is None else following[0]
        until = end_ms if following is None else following[0]
        is_left = any(start < begin < next_ms for begin, _ in others)
        kept_ms = last if is_left or until is None else until
        spans.append((start, min([kept_ms, *(at_ms for at_ms in gone if at_ms >= last)])))
    return union(spans)


def gone(lived: Sequence[Span], departures: Sequence[int]) -> list[int]:
    """From when on a node was gone that lived over these spans and was said to be gone at these
    times, ascending.

    What was said of a time in which it lived on means nothing: a restart, a spool that came late.
    """
    times: set[int] = set()
    for at_ms in departures:
        before = [span for span in lived if span[0] <= at_ms]
        if before and before[-1][1] <= at_ms:
            times.add(before[-1][1])
    return sorted(times)


def is_silent(newest_ms: int, received_ms: int) -> bool:
    """Whether a node that reported a GPU until `newest_ms` is silent about it, by the hub's
    clock.
    """
    return received_ms - newest_ms >= GAP_MS


def is_ahead(windows: Sequence[Span], received_ms: int) -> bool:
    """Whether the windows end later than a right clock can say: no move is believed by them."""
    return bool(windows) and windows[-1][1] > received_ms + AHEAD_MS
