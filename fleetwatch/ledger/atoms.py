"""The timelines of all GPUs of a node, one after the other, and what their windows say in one
number each. Pure numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.activity import Activity
from fleetwatch.ledger.family import Member
from fleetwatch.ledger.labels import FIXED, SOURCE_SHIFT, Label, with_outages
from fleetwatch.ledger.observations import Floats, Ints, Mask, Question, column

Words = NDArray[np.uint16]

# What a window says: why it says nothing (3 bits; 4: there is none), else
NO_WINDOW = 4
UNSEEN_MASK = 7
QUIET, BLIP, ZERO = 1 << 3, 1 << 4, 1 << 5
CONTEXT_SHIFT = 6
SPINNING = 1 << 8
SOURCE_AND_SIGNAL_SHIFT = 9  # as in a kind; no source where it is quiet
MOST_W = 1500.0  # where no limit is known: no board has a higher one


@dataclass(frozen=True, slots=True)
class Said:
    """One value per window and, last, of no window at all: position -1."""

    word: Words
    works: Mask  # counters or power show work, also where no activity signal was read
    length_ms: Ints
    joules_per_ms: Floats  # 0 where it was not read
    is_metered: Mask
    is_by_power: Mask  # the counter's joules are more than the board can draw: watts stand for them


def said(question: Question, acts: Activity, limit_w: Floats) -> Said:
    """What all windows say."""
    windows = question.windows
    length_ms = windows.end_ms - windows.start_ms
    rate = column(windows, "energy_j") / length_ms
    # more than the board can draw is no reading
    most_w = np.where(np.isnan(limit_w), MOST_W, limit_w) * question.policy.energy_max_ratio
    is_absurd = rate * 1000 > most_w
    rate = np.where(is_absurd, column(windows, "power_w") / 1000, rate)
    is_metered = ~np.isnan(rate)
    return Said(
        word=np.append(_words(acts), np.uint16(NO_WINDOW)),
        works=np.append(acts.works, False),
        length_ms=np.append(length_ms, 0),
        joules_per_ms=np.append(np.where(is_metered, rate, 0.0), 0.0),
        is_metered=np.append(is_metered, False),
        is_by_power=np.append(is_absurd & is_metered, False),
    )


def _words(acts: Activity) -> Words:
    word = acts.signal.astype(np.uint16)
    word += acts.efficiency_source.astype(np.uint16) << np.uint16(SOURCE_SHIFT)
    word[acts.quiet] &= np.uint16((1 << SOURCE_SHIFT) - 1)
    word <<= np.uint16(SOURCE_AND_SIGNAL_SHIFT)
    word += acts.context.astype(np.uint16) << np.uint16(CONTEXT_SHIFT)
    spins = acts.spinning > acts.working
    for mask, bit in (
        (acts.quiet, QUIET),
        (acts.blip, BLIP),
        (acts.zero, ZERO),
        (spins, SPINNING),
    ):
        word += mask * np.uint16(bit)
    is_unseen = acts.unseen != 0
    word[is_unseen] = acts.unseen[is_unseen]
    return word


@dataclass(frozen=True, slots=True)
class Atoms:
    """The atoms of all members, one member after the other; one value per atom."""

    members: Sequence[Member]
    first: list[int]  # position of each member's first atom; after the last one, how many there are
    start_ms: Ints
    end_ms: Ints
    cut: Ints
    row: Ints  # of the window that speaks, -1: none
    energy_row: Ints
    rest_ms: Ints  # what nobody holds
    held: Ints  # by how many
    rest_is_free: Mask
    down: NDArray[np.int16] | None  # label of the outage, -1: none; None where there is none at all
    is_drained: Mask | None  # the outage is a drain: what is held goes on, what is not can't be had
    labels: tuple[Label, ...]  # by their numbers

    @property
    def is_unobserved(self) -> Mask:
        """Which labels say so, by their numbers."""
        return np.array([label.state == "unobserved" for label in self.labels], dtype=bool)


def joined(members: Sequence[Member]) -> Atoms:
    """The members on one line; there is at least one."""
    sizes = [len(one.start_ms) for one in members]
    down, is_drained, labels = _outages(members, sum(sizes))
    row = np.concatenate([one.row for one in members])
    is_own = all(one.energy_row is one.row for one in members)
    return Atoms(
        members=members,
        first=[0, *np.cumsum(sizes).tolist()],
        start_ms=np.concatenate([one.start_ms for one in members]),
        end_ms=np.concatenate([one.end_ms for one in members]),
        cut=np.concatenate([one.cut for one in members]),
        row=row,
        energy_row=row if is_own else np.concatenate([one.energy_row for one in members]),
        rest_ms=np.concatenate([one.rest_ms for one in members]),
        held=np.concatenate([one.held for one in members]),
        rest_is_free=np.concatenate([one.rest_is_free for one in members]),
        down=down,
        is_drained=is_drained,
        labels=labels,
    )


def _outages(
    members: Sequence[Member], count: int
) -> tuple[NDArray[np.int16] | None, Mask | None, tuple[Label, ...]]:
    reasons = sorted({outage.reason for one in members for outage in one.outages})
    if not reasons:
        return None, None, FIXED
    down, is_drained = np.full(count, -1, dtype=np.int16), np.zeros(count, dtype=bool)
    first = 0
    for one in members:
        last = first + len(one.start_ms)
        # the later assigned wins: the earliest, and a fault before a drain, which would hide it
        # from the holder
        for outage in sorted(
            one.outages, key=lambda outage: (not outage.is_drain, -outage.start_ms, outage.reason)
        ):
            low, high = (
                first + np.searchsorted(one.start_ms, [outage.start_ms, outage.end_ms])
            ).tolist()
            down[low:high] = len(FIXED) + reasons.index(outage.reason)
            is_drained[low:high] = outage.is_drain
        first = last
    return down, is_drained, with_outages(reasons)
