"""Adding up judged milliseconds into entries, parts of runs and five-minute cells: summed once,
from whole milliseconds. Pure numpy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.judgement import cell_states, labels
from fleetwatch.ledger.judgement.cell_states import CELL_MS, KEYS, NAMES, Table
from fleetwatch.ledger.judgement.columns import Judged
from fleetwatch.ledger.judgement.labels import LABEL_SHIFT, SOURCE_MASK, Kinds, Label
from fleetwatch.ledger.judgement.observations import (
    NOBODY,
    Columns,
    Entries,
    Floats,
    Ints,
    Judgement,
    Mask,
    RunParts,
    Words,
)
from fleetwatch.ledger.policy import FIGURES, STATES

_CELL_PLACE = {label: place for place, label in enumerate(cell_states.LABELS)}


@dataclass(frozen=True, slots=True)
class Sums:
    """Milliseconds by patch and kind, column by column: whole ms, which any order sums alike.

    A patch are neighbouring places of one slot and kind; `first` of each. The others have one
    value per sum; `count`: how many places it is made of; `sizes`: how many sums each column has.
    """

    first: Ints
    patch: Ints
    kind: Kinds
    gpu_ms: Ints
    count: Ints
    sizes: list[int]


def judgement(judged: Judged) -> Judgement:
    """Entries, parts and cells: sums of the same small sums over neighbouring places."""
    segments = judged.segments
    segment = judged.segment
    is_group = _changes(judged.timeline) | _changes(segments.cut[segment])
    is_part = is_group | ~judged.joins_previous
    is_cell = _changes(segments.start_ms[segment] // CELL_MS)
    sums = _sums(judged, is_part | is_cell | _changes(segments.is_metered[segment]))
    return Judgement(
        _entries(judged, sums, is_group), _parts(judged, sums, is_part), _cells(judged, sums)
    )


def _changes(values: NDArray[Any]) -> Mask:
    """Where a value is not the one before it; the first one counts."""
    return np.append(True, values[1:] != values[:-1])


def _sums(judged: Judged, is_slot: Mask) -> Sums:
    """What was judged, by slots (`is_slot`: where one begins) and kinds, of neighbours alone."""
    is_begun = is_slot.copy()
    is_begun[1:] |= judged.kind[1:] != judged.kind[:-1]
    first = np.flatnonzero(is_begun)
    length = np.diff(first, append=len(is_begun))
    # what is active has a source of efficiency: a patch is active as a whole or not at all
    busy = np.flatnonzero(judged.kind[first] & np.int16(SOURCE_MASK))
    begins = np.cumsum(length[busy]) - length[busy]
    starting = np.searchsorted(first, judged.starting, side="right") - 1
    patches = [np.arange(len(first)), busy, busy, busy, starting]
    gpu_ms = [
        np.add.reduceat(judged.rest_ms, first),
        *(np.add.reduceat(ms, begins) for ms in judged.active_ms),
        judged.starting_ms,
    ]
    counts = [length, *[length[busy]] * 3, np.ones(len(starting), dtype=np.int64)]
    return Sums(
        first,
        np.concatenate(patches),
        np.concatenate(judged.kinds(first, first[busy], judged.starting)),
        np.concatenate(gpu_ms),
        np.concatenate(counts),
        [len(patch) for patch in patches],
    )


def _entries(judged: Judged, sums: Sums, is_group: Mask) -> Entries:
    """One entry per timeline, cut and kind.

    Time with and without a reading of energy stays apart: a sum never passes off missing joules as
    none.
    """
    segments = judged.segments
    timelines = judged.timelines
    kinds, kind = np.unique(sums.kind, return_inverse=True)
    of_patch = (np.cumsum(is_group) - 1)[sums.first] * len(kinds)
    is_read = segments.is_metered[judged.segment[sums.first]]
    key = (of_patch[sums.patch] + kind) * 2 + is_read[sums.patch]
    milliseconds = np.bincount(key, weights=sums.gpu_ms)
    joules = _joules(judged, sums, key, len(milliseconds))
    position = np.flatnonzero(milliseconds)
    rest, has_energy = np.divmod(position, 2)
    group, words = np.divmod(rest, len(kinds))
    place = np.flatnonzero(is_group)[group]
    timeline = judged.timeline[place]
    return Entries(
        gpu_id=timelines.gpu_id[timeline],
        cut_ms=judged.question.cuts[segments.cut[judged.segment[place]]],
        job_id=timelines.job_id[timeline],
        words=words,
        gpu_ms=milliseconds[position].astype(np.int64),
        energy_j=np.where(has_energy, joules[position], np.nan),
        texts=[_words(*labels.named(segments.labels, kind)) for kind in kinds.tolist()],
    )


def _words(label: Label, signal: str, source: str) -> Words:
    return label.state, label.kind, label.reason, signal, source, label.tier


def _joules(judged: Judged, sums: Sums, key: Ints, size: int) -> Floats:
    """Energy by the `key` of each sum, added place by place: floats depend on the order.

    No key is in two columns.
    """
    joules_per_ms = judged.segments.joules_per_ms[judged.segment]
    joules = np.zeros(size)
    first = 0
    for (place, gpu_ms), count in zip(judged.amounts(), sums.sizes, strict=True):
        own = slice(first, first + count)
        joules += np.bincount(
            np.repeat(key[own], sums.count[own]),
            weights=joules_per_ms[place] * gpu_ms,
            minlength=size,
        )
        first += count
    return joules


def _parts(judged: Judged, sums: Sums, is_part: Mask) -> RunParts:
    """The parts of runs with any time, with their milliseconds by state."""
    first = np.flatnonzero(is_part)
    last = np.append(first[1:], len(is_part)) - 1
    states = np.array([STATES.index(label.state) for label in judged.segments.labels])
    of_patch = (np.cumsum(is_part) - 1)[sums.first] * len(STATES)
    key = of_patch[sums.patch] + states[sums.kind >> LABEL_SHIFT]
    state_ms = _table(key, sums.gpu_ms, rows=len(first), columns=len(STATES))
    timeline = judged.timeline[first]
    return RunParts(
        gpu_id=judged.timelines.gpu_id[timeline],
        job_id=judged.timelines.job_id[timeline],
        condition=judged.condition[first].astype(np.int64),
        start_ms=judged.segments.start_ms[judged.segment[first]],
        end_ms=judged.segments.end_ms[judged.segment[last]],
        continues=judged.joins_previous[first],
        state_ms=state_ms,
        figures=_figures(judged, first),
    ).where(np.asarray(state_ms.any(axis=1)))


def _table(key: Ints, gpu_ms: Ints, *, rows: int, columns: int) -> Ints:
    """Milliseconds by row and column, which each sum's key says."""
    sums = np.bincount(key, weights=gpu_ms, minlength=rows * columns)
    return np.asarray(sums.astype(np.int64).reshape(rows, columns))


def _figures(judged: Judged, first: Ints) -> Floats:
    """Parts (beginning at `first`) x FIGURES: sums, not means, so that parts of a run add up before
    anything is divided.
    """
    activity = judged.activity
    read = Columns(judged.question.windows)
    columns = (
        activity.active,
        read["power_w"],
        read["memory_used_bytes"],
        # only the flagged time: "spinning not resolvable"
        np.where(activity.spin_unresolved, 1.0, np.nan),
    )
    row = judged.segments.row[judged.segment]
    length_ms = judged.segments.end_ms[judged.segment] - judged.segments.start_ms[judged.segment]
    figures: Floats = np.zeros((len(first), len(FIGURES)))
    for place, values in enumerate(columns):
        is_read = (activity.unseen == 0) & ~np.isnan(values)
        if not is_read.any():
            continue
        # one more, for no window (-1)
        read_ms = np.append(is_read, False)[row] * length_ms
        amount = np.append(np.where(is_read, values, 0.0), 0.0)[row] * length_ms
        figures[:, 2 * place] = np.add.reduceat(read_ms, first)
        figures[:, 2 * place + 1] = np.add.reduceat(amount, first)
    return figures


def _cells(judged: Judged, sums: Sums) -> Table:
    """A row per cell in which a job held a GPU: the patches of jobs by five minutes and label."""
    timelines = judged.timelines
    timeline = judged.timeline[sums.first]
    cell = judged.segments.start_ms[judged.segment[sums.first]] // CELL_MS
    is_begun = _changes(timeline) | _changes(cell)
    first = np.flatnonzero(is_begun)
    place = np.array(
        [_CELL_PLACE.get((label.state, label.tier), -1) for label in judged.segments.labels]
    )
    is_held = timelines.job_id[timeline] != NOBODY
    held = np.flatnonzero(is_held[sums.patch])
    group = (np.cumsum(is_begun) - 1)[sums.patch[held]]
    key = group * len(NAMES) + place[sums.kind[held] >> LABEL_SHIFT]
    cell_ms = _table(key, sums.gpu_ms[held], rows=len(first), columns=len(NAMES))
    is_filled = cell_ms.any(axis=1)
    first = first[is_filled]
    owner = timeline[first]
    keys = (timelines.gpu_id[owner], timelines.job_id[owner], cell[first] * CELL_MS)
    columns = dict(zip((*KEYS, *NAMES), (*keys, *cell_ms[is_filled].T), strict=True))
    return cell_states.joined([columns])
