"""Adding up judged milliseconds into entries, parts of runs and five-minute cells: summed once,
from whole milliseconds. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger import labels
from fleetwatch.ledger.labels import (
    LABEL_SHIFT,
    SIGNAL_MASK,
    SOURCE_MASK,
    SPINNING,
    STARTING,
    UNDERUSED,
    USEFUL,
    Kinds,
    Label,
    numbers,
)
from fleetwatch.ledger.observations import Entries, Floats, Ints, Mask, Words
from fleetwatch.ledger.policy import STATES

STATE_NUMBER = {state: number for number, state in enumerate(STATES)}
_WITH_SOURCE = SIGNAL_MASK | SOURCE_MASK
_USEFUL, _UNDERUSED, _STARTING = numbers((USEFUL, UNDERUSED, STARTING)) << LABEL_SHIFT
_SPINNING = numbers(SPINNING) << LABEL_SHIFT


@dataclass(frozen=True, slots=True)
class Tally:
    """Judged milliseconds of places: the wanted atoms of lanes, one lane after the other, in order
    of time.
    """

    lane: Ints
    atom: Ints
    kind: Kinds  # of what is left of it; with the source of efficiency where it was active too
    rest_ms: Ints
    busy: Ints  # the places with activity
    active_ms: tuple[Ints, Ints, Ints]  # useful, underused, spinning, of each of them
    starting: Ints  # the places in runs that start
    starting_ms: Ints
    stall_tier: Ints  # of each lane
    labels: tuple[Label, ...]

    def amounts(self) -> list[tuple[Ints, Ints]]:
        """(places, milliseconds there) in columns: the rest, useful, underused, spinning, starting.

        No kind is in two of them.
        """
        active = [(self.busy, gpu_ms) for gpu_ms in self.active_ms]
        return [
            (np.arange(len(self.atom)), self.rest_ms),
            *active,
            (self.starting, self.starting_ms),
        ]

    def kinds(self, rest: Ints, busy: Ints, starting: Ints) -> list[Kinds]:
        """The kinds by column of these places."""
        kind = self.kind[busy]
        by_source, signal = kind & np.int16(_WITH_SOURCE), kind & np.int16(SIGNAL_MASK)
        return [
            self.kind[rest] & ~np.int16(SOURCE_MASK),
            by_source + _USEFUL,
            by_source + _UNDERUSED,
            signal + _SPINNING[self.stall_tier[self.lane[busy]]],
            (self.kind[starting] & np.int16(SIGNAL_MASK)) + _STARTING,
        ]


@dataclass(frozen=True, slots=True)
class Sums:
    """Milliseconds by segment and kind, column by column: whole ms, which any order sums alike.

    A segment are neighbouring places of one slot and kind; `first` of each. The others have one
    value per sum; `count`: how many places it is made of; `sizes`: how many sums each column has.
    """

    first: Ints
    segment: Ints
    kind: Kinds
    gpu_ms: Ints
    count: Ints
    sizes: list[int]


def sums(tally: Tally, is_slot: Mask) -> Sums:
    """What was judged, by slots (`is_slot`: where one begins) and kinds, of neighbours alone."""
    is_begun = is_slot.copy()
    is_begun[1:] |= tally.kind[1:] != tally.kind[:-1]
    first = np.flatnonzero(is_begun)
    length = np.diff(first, append=len(is_begun))
    # what is active has a source of efficiency: a segment is active as a whole or not at all
    busy = np.flatnonzero(tally.kind[first] & np.int16(SOURCE_MASK))
    begins = np.cumsum(length[busy]) - length[busy]
    starting = np.searchsorted(first, tally.starting, side="right") - 1
    segments = [np.arange(len(first)), busy, busy, busy, starting]
    (_, rest_ms), *active, (_, starting_ms) = tally.amounts()
    gpu_ms = [
        np.add.reduceat(rest_ms, first),
        *(np.add.reduceat(ms, begins) for _, ms in active),
        starting_ms,
    ]
    counts = [length, *[length[busy]] * 3, np.ones(len(starting), dtype=np.int64)]
    return Sums(
        first,
        np.concatenate(segments),
        np.concatenate(tally.kinds(first, first[busy], tally.starting)),
        np.concatenate(gpu_ms),
        np.concatenate(counts),
        [len(one) for one in segments],
    )


@dataclass(frozen=True, slots=True)
class Groups:
    """Of each segment the lane's cut that it is in; of each of these its GPU, job (NOBODY: none)
    and cut.
    """

    of_segment: Ints
    gpu_id: Ints
    job_id: Ints
    cut_ms: Ints


def entries(
    tally: Tally, found: Sums, groups: Groups, *, is_read: Mask, joules_per_ms: Floats
) -> Entries:
    """One entry per lane, cut and kind; `is_read` (its energy) and `joules_per_ms` (0 where not
    read) of each place.

    Time with and without a reading of energy stays apart: a sum never passes off missing joules as
    none.
    """
    is_there = np.zeros(len(tally.labels) << LABEL_SHIFT, dtype=bool)
    is_there[found.kind] = True
    kinds = np.flatnonzero(is_there)
    number = np.cumsum(is_there) - 1
    of_segment = groups.of_segment * len(kinds)
    key = (of_segment[found.segment] + number[found.kind]) * 2 + is_read[found.first[found.segment]]
    milliseconds = np.bincount(key, weights=found.gpu_ms)
    joules = _joules(tally, found, key, joules_per_ms, len(milliseconds))
    position = np.flatnonzero(milliseconds)
    rest, has_energy = np.divmod(position, 2)
    group, words = np.divmod(rest, len(kinds))
    return Entries(
        gpu_id=groups.gpu_id[group],
        cut_ms=groups.cut_ms[group],
        job_id=groups.job_id[group],
        words=words,
        gpu_ms=milliseconds[position].astype(np.int64),
        energy_j=np.where(has_energy, joules[position], np.nan),
        told=[_words(*labels.told(tally.labels, kind)) for kind in kinds.tolist()],
    )


def _words(label: Label, signal: str, source: str) -> Words:
    return label.state, label.kind, label.reason, signal, source, label.tier


def _joules(tally: Tally, found: Sums, key: Ints, joules_per_ms: Floats, size: int) -> Floats:
    """Energy by the `key` of each sum, added place by place: floats depend on the order.

    No key is in two columns.
    """
    joules = np.zeros(size)
    first = 0
    for (place, gpu_ms), count in zip(tally.amounts(), found.sizes, strict=True):
        own = slice(first, first + count)
        joules += np.bincount(
            np.repeat(key[own], found.count[own]),
            weights=joules_per_ms[place] * gpu_ms,
            minlength=size,
        )
        first += count
    return joules


def state_ms(tally: Tally, found: Sums, *, part: Ints, parts: int) -> Ints:
    """Milliseconds per part (rows) and state (columns, in the order of STATES); `part` of each
    segment.
    """
    states = np.array([STATE_NUMBER[label.state] for label in tally.labels], dtype=np.int64)
    key = part[found.segment] * len(STATES) + states[found.kind >> LABEL_SHIFT]
    return np.asarray(
        np.bincount(key, weights=found.gpu_ms, minlength=parts * len(STATES))
        .astype(np.int64)
        .reshape(parts, len(STATES))
    )


@dataclass(frozen=True, slots=True)
class Figure:
    """A column over windows and, last, no window: where it was read, and its value there
    (else 0).
    """

    is_read: Mask
    value: Floats

    @classmethod
    def of(cls, values: Floats, is_seen: Mask) -> "Figure":
        """The figure of these values, NaN where not read, in the windows that say something."""
        is_read: Mask = is_seen & ~np.isnan(values)
        return cls(np.append(is_read, False), np.append(np.where(is_read, values, 0.0), 0.0))


def figure_sums(
    starts: Ints, figures: Mapping[str, Figure], *, row: Ints, length_ms: Ints
) -> dict[str, Floats]:
    """Per part (beginning at `starts`): ms in which each column was read, and the sum of value x
    ms; `row` and length of each place.

    Sums, not means: parts of a run add up before anything is divided.
    """
    found: dict[str, Floats] = {}
    for name, figure in figures.items():
        if not figure.is_read.any():
            found[f"{name}_ms"] = found[f"{name}_sum"] = np.zeros(len(starts))
            continue
        found[f"{name}_ms"] = np.add.reduceat(figure.is_read[row] * length_ms, starts).astype(
            np.float64
        )
        found[f"{name}_sum"] = np.add.reduceat(figure.value[row] * length_ms, starts)
    return found
