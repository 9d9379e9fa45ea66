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

# segments, which of them are the owner's own, and its milliseconds
Column = tuple[Ints, Mask, Ints]


def of_owners(
    question: Question, activity: Activity, segments: Segments, beside: Ints, label: Kinds
) -> Timelines:
    """The timelines of all members: what nobody holds (of the segments `beside` it, with its
    label), then each holder.
    """
    nobodys = _codes_of_nobody(segments, beside, label)
    is_gap = _is_gap(segments, beside[nobodys == GAP])
    owners, columns = zip(
        *_of_nobody(segments, beside), *_of_holders(segments, is_gap), strict=True
    )
    sizes = [len(segment) for segment, _, _ in columns]
    segment, is_own, gpu_ms = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    row = segments.row[segment]
    is_down = segments.is_down[segment]
    code = np.where(is_down, np.int8(BARRIER), of_rows(activity.code, row, none=GAP))
    code[~is_own] = np.where(is_gap[segment[~is_own]], GAP, BARRIER)
    code[: len(beside)] = nobodys
    return Timelines(
        owners=owners,
        first=np.append(0, np.cumsum(sizes)),
        unallocated=len(beside),
        label=label,
        gpu_id=np.array([owner.member.gpu_id for owner in owners]),
        job_id=np.array([owner.job_id for owner in owners]),
        timeline=np.repeat(np.arange(len(sizes)), sizes),
        segment=segment,
        row=row,
        start_ms=segments.start_ms[segment],
        end_ms=segments.end_ms[segment],
        bridge_ms=of_rows(_bridges(question), row),
        is_own=is_own,
        gpu_ms=gpu_ms,
        is_down=is_down,
        code=code,
    )


def _bridges(question: Question) -> Floats:
    """The longest gap beside each window that a run continues across."""
    windows = question.windows
    return np.asarray(question.policy.bridge_windows * (windows.end_ms - windows.start_ms))


def _codes_of_nobody(segments: Segments, beside: Ints, label: Kinds) -> Codes:
    """Nobody is idle: what nobody holds is known or not."""
    known_or_not = np.where(segments.is_unobserved[label], GAP, BUSY)
    return np.where(segments.rest_ms[beside] > 0, known_or_not, BARRIER)


def _is_gap(segments: Segments, unknown: Ints) -> Mask:
    """Of all segments those that nobody holds and nobody knows of."""
    is_gap = np.zeros(len(segments.row), dtype=bool)
    is_gap[unknown] = segments.held[unknown] == 0
    return is_gap


def _of_nobody(segments: Segments, beside: Ints) -> Iterator[tuple[Owner, Column]]:
    """Of each member whose time nobody holds, that."""
    bounds = np.searchsorted(beside, segments.first).tolist()
    for member, low, high in zip(segments.members, bounds, bounds[1:], strict=False):
        if low < high:
            rest_ms = segments.rest_ms[beside[low:high]]
            yield Owner(member, NOBODY), (beside[low:high], rest_ms > 0, rest_ms)


def _of_holders(segments: Segments, is_gap: Mask) -> Iterator[tuple[Owner, Column]]:
    """Of each holder what it held."""
    for member, begin in zip(segments.members, segments.first, strict=False):
        is_gap_here = is_gap[begin : begin + len(member.row)]
        for holder in member.holders:
            low, high = _reach(holder.held, is_gap_here)
            own = np.arange(begin + low, begin + high)
            owner = Owner(member, holder.job_id, holder.kind, holder.spans)
            yield owner, (own, holder.held[low:high], holder.gpu_ms[low:high])


def _reach(held: Mask, is_gap: Mask) -> tuple[int, int]:
    """What a holder's timeline spans: its runs end with what is known on both sides of its time."""
    low = int(held.argmax())
    high = len(held) - int(held[::-1].argmax())
    before = is_gap[:low][::-1]
    after = is_gap[high:]
    low -= int(before.argmin()) + 1 if not before.all() else low
    high += int(after.argmin()) + 1 if not after.all() else len(after)
    return low, high
