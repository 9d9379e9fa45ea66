"""Which blocks of history are still to draw for a node. Pure.

A fill is one span of history, told under its own boot_id, which names the span: what
of it was stored can be read from the sequences received, so an interrupted fill
resumes, a repeated one stores nothing, and a later start adds a fill for the gap.
"""

import itertools
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from fleetwatch.lib.intervals import HOUR_MS

SLOT_MS = 10_000  # the agents' window; all edges of blocks lie on it
COARSE_MS = 60_000
BLOCK_MS = 6 * HOUR_MS  # the wire's longest batch
# The newest hours come in the agents' own 10 s windows, so that the charts of today look the same
# on both sides of the start; older days in 60 s windows: a sixth of the work, and no page zooms
# closer.
FINE_MS = 6 * HOUR_MS
BRIDGED_MS = 3 * SLOT_MS  # a hole over which the ledger's runs go on
PREFIX = "history"
# What agents do when the network fails them: a spool that is sent later, an answer that was lost.
LATE_CHANCE = 0.05
TWICE_CHANCE = 0.02
LATE_BY = 6
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Fill:
    """A span [start_ms, end_ms) of history of one node."""

    start_ms: int
    end_ms: int

    @property
    def boot_id(self) -> str:
        """Names the span, so that what was stored under it can be judged later."""
        return f"{PREFIX}-{self.start_ms}-{self.end_ms}"


@dataclass(frozen=True, slots=True)
class Block:
    """One batch of a fill: [start_ms, end_ms) in windows of window_s."""

    fill: Fill
    start_ms: int
    end_ms: int
    window_s: int

    @property
    def sequence(self) -> int:
        """By its start, so that it is the same however often and in whatever order blocks
        are told.
        """
        return self.start_ms // SLOT_MS


def parse_fill(boot_id: str) -> Fill | None:
    """The span that a boot_id names; None for a boot of a real agent."""
    prefix, _, span = boot_id.partition("-")
    start, _, end = span.partition("-")
    if prefix != PREFIX or not (start.isdigit() and end.isdigit()):
        return None
    return Fill(int(start), int(end))


def blocks(fill: Fill) -> list[Block]:
    """The fill in blocks on the grid of 6 hours, without gap or overlap; the newest hours in 10 s
    windows.
    """
    fine_from = max(fill.start_ms, (fill.end_ms - FINE_MS) // HOUR_MS * HOUR_MS)
    on_grid = range(-(-fill.start_ms // BLOCK_MS) * BLOCK_MS, fill.end_ms, BLOCK_MS)
    edges = sorted({fill.start_ms, fine_from, fill.end_ms, *on_grid})
    return [
        Block(fill, start, end, SLOT_MS // 1000 if start >= fine_from else COARSE_MS // 1000)
        for start, end in itertools.pairwise(edges)
    ]


def as_delivered(blocks: Sequence[Item], *, seed: str) -> list[Item]:
    """The blocks in the order in which a real network brings them: some late, behind a few of the
    next ones, and some twice.
    """
    rng = random.Random(seed)
    placed = [
        (place + (rng.uniform(1, LATE_BY) if rng.random() < LATE_CHANCE else 0.0), block)
        for place, block in enumerate(blocks)
    ]
    placed += [
        (place + rng.uniform(1, LATE_BY), block)
        for place, block in placed
        if rng.random() < TWICE_CHANCE
    ]
    return [block for _, block in sorted(placed, key=itemgetter(0))]


def missing(
    received: Mapping[str, Collection[int]], *, last_ms: int | None, until_ms: int, days: int
) -> list[Block]:
    """The blocks still to store up to until_ms, newest first.

    `received` holds the sequences of every boot of the node; last_ms is the end of
    what is known of it (None: nothing). What begins with minutes starts at a whole one; a hole that
    runs go on over stays.
    """
    fills = [fill for fill in map(parse_fill, received) if fill is not None]
    todo = [
        block
        for fill in fills
        for block in blocks(fill)
        if block.sequence not in received[fill.boot_id]
    ]
    gap = _new_fill(fills, last_ms=last_ms, until_ms=until_ms, days=days)
    todo += blocks(gap) if gap else []
    return sorted(todo, key=lambda block: -block.start_ms)


def _new_fill(
    fills: Sequence[Fill], *, last_ms: int | None, until_ms: int, days: int
) -> Fill | None:
    """What no fill names yet; None where runs go on over it."""
    earliest = (until_ms - days * 24 * HOUR_MS) // COARSE_MS * COARSE_MS
    known_until = (
        max([fill.end_ms for fill in fills] + [last_ms or earliest]) if fills else earliest
    )
    end_ms = until_ms // SLOT_MS * SLOT_MS
    grid_ms = SLOT_MS if end_ms - known_until <= FINE_MS else COARSE_MS
    start_ms = max(earliest, -(-known_until // grid_ms) * grid_ms)
    return Fill(start_ms, end_ms) if end_ms - start_ms > BRIDGED_MS else None
