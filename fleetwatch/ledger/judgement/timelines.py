"""Timelines: nobody's view of each GPU, then each holder's, one after the other. Pure numpy."""

from collections.abc import Iterator

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    BARRIER,
    BUSY,
    GAP,
    Activity,
    Owner,
    Segments,
    Timelines,
    of_rows,
)
from fleetwatch.ledger.judgement.labels import Codes, Kinds
from fleetwatch.ledger.judgement.observations import NOBODY, Floats, Ints, Mask, Question


def of_owners(
    question: Question, activity: Activity, segments: Segments, beside: Ints, label: Kinds
) -> Timelines:
    """The timelines of all members: what nobody holds (of the segments `beside` it, with its
    label), then each holder.
    """
    nobodys = _codes_of_nobody(segments, beside, label)
    is_gap = _is_gap(segments, beside[nobodys == GAP])
    owners = [*_of_nobody(segments, beside), *_of_holders(segments, is_gap)]
    segment, is_own, gpu_ms = (
        np.concatenate([getattr(owner, name) for owner in owners])
        for name in ("segment", "is_own", "gpu_ms")
    )
    code = _codes(activity, segments, segment, is_own, is_gap)
    code[: len(beside)] = nobodys
    return Timelines(
        owners=owners,
        segments=segments,
        bridges=_bridges(question),
        unallocated=len(beside),
        label=label,
        timeline=np.repeat(np.arange(len(owners)), [len(owner.segment) for owner in owners]),
        segment=segment,
        is_own=is_own,
        gpu_ms=gpu_ms,
        is_down=segments.is_down[segment],
        code=code,
    )


def _bridges(question: Question) -> Floats:
    windows = question.windows
    return np.asarray(question.policy.bridge_windows * (windows.end_ms - windows.start_ms))


def _codes(
    activity: Activity, segments: Segments, segment: Ints, is_own: Mask, is_gap: Mask
) -> Codes:
    """What each position is to its holder."""
    code: Codes = of_rows(activity.code, segments.row[segment], none=GAP)
    code[segments.is_down[segment]] = BARRIER
    code[~is_own] = np.where(is_gap[segment[~is_own]], GAP, BARRIER)
    return code


def _codes_of_nobody(segments: Segments, beside: Ints, label: Kinds) -> Codes:
    """Nobody is idle: what nobody holds is known or not."""
    known_or_not = np.where(segments.is_unobserved[label], GAP, BUSY)
    return np.where(segments.rest_ms[beside] > 0, known_or_not, BARRIER)


def _is_gap(segments: Segments, unknown: Ints) -> Mask:
    """Of all segments those that nobody holds and nobody knows of."""
    is_gap = np.zeros(len(segments.row), dtype=bool)
    is_gap[unknown] = segments.held[unknown] == 0
    return is_gap


def _of_nobody(segments: Segments, beside: Ints) -> Iterator[Owner]:
    """Of each member whose time nobody holds, that."""
    bounds = np.searchsorted(beside, segments.first).tolist()
    for member, low, high in zip(segments.members, bounds, bounds[1:], strict=False):
        if low < high:
            own = beside[low:high]
            rest_ms = segments.rest_ms[own]
            yield Owner(member, NOBODY, "", (), own, rest_ms > 0, rest_ms)


def _of_holders(segments: Segments, is_gap: Mask) -> Iterator[Owner]:
    """Of each holder what it held."""
    for member, begin in zip(segments.members, segments.first, strict=False):
        is_gap_here = is_gap[begin : begin + len(member.row)]
        for holder in member.holders:
            low, high = _reach(holder.held, is_gap_here)
            yield Owner(
                member,
                holder.job_id,
                holder.kind,
                holder.spans,
                segment=np.arange(begin + low, begin + high),
                is_own=holder.held[low:high],
                gpu_ms=holder.gpu_ms[low:high],
            )


def _reach(held: Mask, is_gap: Mask) -> tuple[int, int]:
    """What a holder's timeline spans: its runs end with what is known on both sides of its time."""
    if held[0] and held[-1]:
        return 0, len(held)
    low = int(held.argmax())
    high = len(held) - int(held[::-1].argmax())
    before = is_gap[:low][::-1]
    after = is_gap[high:]
    low -= int(before.argmin()) + 1 if not before.all() else low
    high += int(after.argmin()) + 1 if not after.all() else len(after)
    return low, high
