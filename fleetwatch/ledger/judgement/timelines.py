"""Timelines: nobody's view of each GPU, then each holder's, one after the other. Pure numpy."""

from collections.abc import Iterator

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    BARRIER,
    BLIP,
    BLIP_BIT,
    BUSY,
    GAP,
    QUIET,
    QUIET_BIT,
    UNSEEN_MASK,
    Owner,
    Segments,
    Timelines,
)
from fleetwatch.ledger.judgement.labels import Codes, Kinds
from fleetwatch.ledger.judgement.observations import Ints, Mask


def _code(word: int) -> int:
    if word & UNSEEN_MASK:
        return GAP
    if word & QUIET_BIT:
        return QUIET
    return BLIP if word & BLIP_BIT else BUSY


# the code of what a window says, by its lowest bits
_LOW_BITS = UNSEEN_MASK | QUIET_BIT | BLIP_BIT
_CODES = np.array([_code(word) for word in range(_LOW_BITS + 1)], dtype=np.int8)


def of_owners(segments: Segments, beside: Ints, label: Kinds) -> Timelines:
    """The timelines of all members: what nobody holds (of the segments `beside` it, with its
    label), then each holder.
    """
    is_rest = segments.rest_ms[beside] > 0
    is_unknown = segments.is_unobserved[label]
    # what nobody holds and nobody knows of
    is_gap = np.zeros(len(segments.row), dtype=bool)
    unknown = beside[is_rest & is_unknown]
    is_gap[unknown] = segments.held[unknown] == 0
    sizes = np.diff(np.searchsorted(beside, segments.first)).tolist()
    owners = [Owner(member, None) for member, size in enumerate(sizes) if size]
    columns = [(beside, is_rest, segments.rest_ms[beside])]
    sizes = [size for size in sizes if size]
    for owner, column in _holders(segments, is_gap):
        owners.append(owner)
        columns.append(column)
        sizes.append(len(column[0]))
    segment, is_own, gpu_ms = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    word = segments.word[segment]
    is_down = (segments.down[segment] >= 0) & ~segments.is_drained[segment]
    code: Codes = _CODES[word & np.uint16(_LOW_BITS)]
    code[is_down] = BARRIER
    other = np.flatnonzero(~is_own)
    code[other] = np.where(is_gap[segment[other]], GAP, BARRIER)
    # nobody is idle: what nobody holds is known or not
    code[: len(beside)] = np.where(is_rest, np.where(is_unknown, GAP, BUSY), BARRIER)
    return Timelines(
        owners=owners,
        first=np.append(0, np.cumsum(sizes)),
        unallocated=len(beside),
        label=label,
        timeline=np.repeat(np.arange(len(sizes)), sizes),
        segment=segment,
        word=word,
        is_own=is_own,
        gpu_ms=gpu_ms,
        is_down=is_down,
        code=code,
    )


def _holders(segments: Segments, is_gap: Mask) -> Iterator[tuple[Owner, tuple[Ints, Mask, Ints]]]:
    """Of each holder whose timeline it is, and (segments, which are its own, its milliseconds)."""
    for number, member in enumerate(segments.members):
        begin, end = segments.first[number], segments.first[number + 1]
        for holder in member.holders:
            low, high = _reach(holder.held, is_gap[begin:end])
            own_segments = np.arange(begin + low, begin + high)
            owner = Owner(number, holder.job_id, holder.kind, holder.spans)
            yield owner, (own_segments, holder.held[low:high], holder.gpu_ms[low:high])


def _reach(held: Mask, is_gap: Mask) -> tuple[int, int]:
    """What a holder's timeline spans: its runs end with what is known on both sides of its time."""
    low = int(held.argmax())
    high = len(held) - int(held[::-1].argmax())
    before, after = is_gap[:low][::-1], is_gap[high:]
    low -= int(before.argmin()) + 1 if not before.all() else low
    high += int(after.argmin()) + 1 if not after.all() else len(after)
    return low, high
