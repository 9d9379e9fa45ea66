"""The segments of all GPUs of a node, one after the other, with their outages and energy. Pure
numpy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fleetwatch.ledger.judgement.columns import Member, Segments, of_rows
from fleetwatch.ledger.judgement.labels import Codes, Label, with_outages
from fleetwatch.ledger.judgement.observations import (
    Columns,
    Floats,
    Ints,
    Outage,
    Question,
)

# Columns that members have, one member after the other.
_OF_MEMBERS = (
    "start_ms", "end_ms", "cut", "row", "energy_row", "rest_ms", "held", "rest_is_free",
)  # fmt: skip
MOST_W = 1500.0  # where no limit is known: no board has a higher one


def joined(members: Sequence[Member], question: Question, limit_w: Floats) -> Segments:
    """The segments of these members; there is at least one."""
    columns = {
        name: np.concatenate([getattr(member, name) for member in members]) for name in _OF_MEMBERS
    }
    first = [0, *np.cumsum([len(member.row) for member in members]).tolist()]
    down, labels = _outages(members, first)
    return Segments(
        **columns,
        **_energy(question, limit_w, columns["energy_row"]),
        members=members,
        first=first,
        down=down,
        labels=labels,
    )


def _energy(question: Question, limit_w: Floats, row: Ints) -> dict[str, Any]:
    """The columns on energy of segments with these windows: watts stand for a counter that says
    more than the board can draw.
    """
    windows = question.windows
    columns = Columns(windows)
    rate = columns["energy_j"] / (windows.end_ms - windows.start_ms)
    most_w = np.where(np.isnan(limit_w), MOST_W, limit_w) * question.policy.energy_max_ratio
    is_absurd = rate * 1000 > most_w
    rate = np.where(is_absurd, columns["power_w"] / 1000, rate)
    is_metered = ~np.isnan(rate)
    return {
        "joules_per_ms": of_rows(np.where(is_metered, rate, 0.0), row),
        "is_metered": of_rows(is_metered, row),
        "is_by_power": of_rows(is_absurd & is_metered, row),
    }


def _outages(members: Sequence[Member], first: Sequence[int]) -> tuple[Codes, tuple[Label, ...]]:
    """Of each segment the label of its outage, -1: none; and all labels by their numbers."""
    reasons = sorted({outage.reason for member in members for outage in member.outages})
    labels = with_outages(reasons)
    number = {label.reason: place for place, label in enumerate(labels)}
    down = np.full(first[-1], -1, dtype=np.int16)
    for member, begin in zip(members, first, strict=False):
        # the later assigned wins
        for outage in sorted(member.outages, key=_rank):
            span = [outage.start_ms, outage.end_ms]
            here = slice(*begin + np.searchsorted(member.start_ms, span))
            down[here] = number[outage.reason]
    return down, labels


def _rank(outage: Outage) -> tuple[bool, int, str]:
    """Of several at once the highest counts: the earliest, and a fault before a drain, which would
    hide it from the holder.
    """
    return not outage.is_drain, -outage.start_ms, outage.reason
