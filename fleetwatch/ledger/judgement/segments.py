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
from fleetwatch.ledger.judgement.labels import SOURCE_SHIFT, Codes, Label, with_outages
from fleetwatch.ledger.judgement.observations import Columns, Floats, Mask, Question

# Columns that members have, one member after the other.
_OF_MEMBERS = (
    "start_ms", "end_ms", "cut", "row", "energy_row", "rest_ms", "held", "rest_is_free",
)  # fmt: skip
MOST_W = 1500.0  # where no limit is known: no board has a higher one


def joined(
    members: Sequence[Member], question: Question, activity: Activity, limit_w: Floats
) -> Segments:
    """The segments of these members; there is at least one."""
    columns = {
        name: np.concatenate([getattr(member, name) for member in members]) for name in _OF_MEMBERS
    }
    first = [0, *np.cumsum([len(member.row) for member in members]).tolist()]
    down, is_drained, labels = _outages(members, first)
    row = columns["row"]
    energy_row = columns["energy_row"]
    window_ms = question.windows.end_ms - question.windows.start_ms
    joules_per_ms, is_by_power = _joules_per_ms(question, limit_w)
    is_metered = ~np.isnan(joules_per_ms)
    # a value per window and, last, of no window: row -1
    return Segments(
        **columns,
        members=members,
        first=first,
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
    labels = with_outages(reasons)
    number = {label.reason: place for place, label in enumerate(labels)}
    down = np.full(first[-1], -1, dtype=np.int16)
    is_drained = np.zeros(first[-1], dtype=bool)
    for member, begin in zip(members, first, strict=False):
        # the later assigned wins: the earliest, and a fault before a drain, which would hide it
        # from the holder
        for outage in sorted(
            member.outages,
            key=lambda outage: (not outage.is_drain, -outage.start_ms, outage.reason),
        ):
            span = [outage.start_ms, outage.end_ms]
            down_here = slice(*begin + np.searchsorted(member.start_ms, span))
            down[down_here] = number[outage.reason]
            is_drained[down_here] = outage.is_drain
    return down, is_drained, labels
