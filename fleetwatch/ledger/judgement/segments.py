"""The segments of all GPUs of a node, one after the other, and what their windows say in one number
each. Pure numpy.
"""

from collections.abc import Sequence

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    BLIP_BIT,
    CONTEXT_SHIFT,
    NO_WINDOW,
    QUIET_BIT,
    SOURCE_AND_SIGNAL_SHIFT,
    SPINNING_BIT,
    ZERO_BIT,
    Activity,
    Member,
    Segments,
    WindowWords,
)
from fleetwatch.ledger.judgement.labels import FIXED, SOURCE_SHIFT, Codes, Label, with_outages
from fleetwatch.ledger.judgement.observations import Columns, Floats, Mask, Question

MOST_W = 1500.0  # where no limit is known: no board has a higher one


def joined(
    members: Sequence[Member], question: Question, activity: Activity, limit_w: Floats
) -> Segments:
    """The segments of these members; there is at least one."""
    first = [0, *np.cumsum([len(member.start_ms) for member in members]).tolist()]
    down, is_drained, labels = _outages(members, first)
    row = np.concatenate([member.row for member in members])
    is_own = all(member.energy_row is member.row for member in members)
    energy_row = row if is_own else np.concatenate([member.energy_row for member in members])
    window_ms = question.windows.end_ms - question.windows.start_ms
    joules_per_ms, is_by_power = _joules_per_ms(question, limit_w)
    is_metered = ~np.isnan(joules_per_ms)
    # a value per window and, last, of no window: row -1
    return Segments(
        members=members,
        first=first,
        start_ms=np.concatenate([member.start_ms for member in members]),
        end_ms=np.concatenate([member.end_ms for member in members]),
        cut=np.concatenate([member.cut for member in members]),
        row=row,
        rest_ms=np.concatenate([member.rest_ms for member in members]),
        held=np.concatenate([member.held for member in members]),
        rest_is_free=np.concatenate([member.rest_is_free for member in members]),
        down=down,
        is_drained=is_drained,
        word=np.append(_words(activity), np.uint16(NO_WINDOW))[row],
        works=np.append(activity.works, False)[row],
        window_ms=np.append(window_ms, 0)[row],
        joules_per_ms=np.append(np.where(is_metered, joules_per_ms, 0.0), 0.0)[energy_row],
        is_metered=np.append(is_metered, False)[energy_row],
        is_by_power=np.append(is_by_power & is_metered, False)[energy_row],
        labels=labels,
    )


def _joules_per_ms(question: Question, limit_w: Floats) -> tuple[Floats, Mask]:
    """Of each window, NaN where not read; and where its watts stand for a counter that says more
    than the board can draw.
    """
    windows = question.windows
    columns = Columns(windows)
    rate = columns["energy_j"] / (windows.end_ms - windows.start_ms)
    most_w = np.where(np.isnan(limit_w), MOST_W, limit_w) * question.policy.energy_max_ratio
    is_absurd = rate * 1000 > most_w
    return np.where(is_absurd, columns["power_w"] / 1000, rate), is_absurd


def _words(activity: Activity) -> WindowWords:
    word = activity.signal.astype(np.uint16)
    word += activity.efficiency_source.astype(np.uint16) << np.uint16(SOURCE_SHIFT)
    word[activity.quiet] &= np.uint16((1 << SOURCE_SHIFT) - 1)
    word <<= np.uint16(SOURCE_AND_SIGNAL_SHIFT)
    word += activity.context.astype(np.uint16) << np.uint16(CONTEXT_SHIFT)
    spins = activity.spinning > activity.working
    bits = (
        (activity.quiet, QUIET_BIT),
        (activity.blip, BLIP_BIT),
        (activity.zero, ZERO_BIT),
        (spins, SPINNING_BIT),
    )
    for mask, bit in bits:
        word += mask * np.uint16(bit)
    is_unseen = activity.unseen != 0
    word[is_unseen] = activity.unseen[is_unseen]
    return word


def _outages(
    members: Sequence[Member], first: Sequence[int]
) -> tuple[Codes, Mask, tuple[Label, ...]]:
    """Of each segment the label of its outage, -1: none; whether that is a drain; and all labels by
    their numbers.
    """
    reasons = sorted({outage.reason for member in members for outage in member.outages})
    down = np.full(first[-1], -1, dtype=np.int16)
    is_drained = np.zeros(first[-1], dtype=bool)
    for member, begin in zip(members, first, strict=False):
        # the later assigned wins: the earliest, and a fault before a drain, which would hide it
        # from the holder
        for outage in sorted(
            member.outages,
            key=lambda outage: (not outage.is_drain, -outage.start_ms, outage.reason),
        ):
            bounds = np.searchsorted(member.start_ms, [outage.start_ms, outage.end_ms])
            low, high = (begin + bounds).tolist()
            down[low:high] = len(FIXED) + reasons.index(outage.reason)
            is_drained[low:high] = outage.is_drain
    return down, is_drained, with_outages(reasons)
