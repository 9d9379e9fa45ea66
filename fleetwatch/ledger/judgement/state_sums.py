"""Adding up judged milliseconds into entries, parts of runs and five-minute cells: summed once,
from whole milliseconds. Pure numpy.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from fleetwatch.ledger.judgement import cell_states, labels
from fleetwatch.ledger.judgement.cell_states import CELL_MS, NAMES, Table
from fleetwatch.ledger.judgement.columns import Judged, Segments, changes
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

    def groups(self, is_group: Mask) -> tuple[Ints, Ints]:
        """The first place of each group, and the number of each sum's; `is_group`: where one
        begins.
        """
        number = np.cumsum(is_group) - 1
        return np.flatnonzero(is_group), number[self.first][self.patch]


def judgement(judged: Judged) -> Judgement:
    """Entries, parts and cells: sums of the same small sums over neighbouring places."""
    segments = judged.segments
    segment = judged.segment
    is_owner = changes(judged.timeline)
    is_group = is_owner | changes(segments.cut.take(segment))
    is_part = is_group | ~judged.joins_previous
    is_cell = is_owner | changes(segments.start_ms.take(segment) // CELL_MS)
    sums = _sums(judged, is_part | is_cell | changes(segments.is_metered.take(segment)))
    return Judgement(
        _entries(judged, sums, is_group),
        _parts(judged, sums, is_part),
        _cells(judged, sums, is_cell),
    )


def _sums(judged: Judged, is_slot: Mask) -> Sums:
    """What was judged, by slots (`is_slot`: where one begins) and kinds, of neighbours alone."""
    first = np.flatnonzero(is_slot | changes(judged.kind))
    length = np.diff(first, append=len(is_slot))
    # what is active has a source of efficiency: a patch is active as a whole or not at all
    busy = np.flatnonzero(judged.kind[first] & SOURCE_MASK)
    starting = np.searchsorted(first, judged.starting, side="right") - 1
    patches = [np.arange(len(first)), busy, busy, busy, starting]
    counts = [length, *[length[busy]] * 3, np.ones(len(starting), dtype=np.int64)]
    return Sums(
        first=first,
        patch=np.concatenate(patches),
        kind=np.concatenate(judged.kinds(first, first[busy], judged.starting)),
        gpu_ms=np.concatenate(_milliseconds(judged, first, length[busy])),
        count=np.concatenate(counts),
        sizes=list(map(len, patches)),
    )


def _milliseconds(judged: Judged, first: Ints, busy: Ints) -> list[Ints]:
    """By column: of the patches with these `first` places, of those with activity (so many places
    in each), and of places in runs that start.
    """
    begins = np.cumsum(busy) - busy
    active_ms = [np.add.reduceat(ms, begins) for ms in judged.active_ms]
    return [np.add.reduceat(judged.rest_ms, first), *active_ms, judged.starting_ms]


def _entries(judged: Judged, sums: Sums, is_group: Mask) -> Entries:
    """One entry per timeline, cut and kind.

    Time with and without a reading of energy stays apart: a sum never passes off missing joules as
    none.
    """
    first, group = sums.groups(is_group)
    kind, texts = _worded(sums.kind, judged.segments.labels)
    shape = (len(first), len(texts), 2)
    key = np.ravel_multi_index((group, kind, _is_metered(judged, sums)), shape)
    milliseconds = np.bincount(key, weights=sums.gpu_ms).astype(np.int64)
    position = np.flatnonzero(milliseconds)
    group, words, has_energy = np.unravel_index(position, shape)
    place = first[group]
    return Entries(
        **_of_cut(judged, place),
        words=words,
        gpu_ms=milliseconds[position],
        energy_j=np.where(has_energy, _joules(judged, sums, key)[position], np.nan),
        texts=texts,
    )


def _is_metered(judged: Judged, sums: Sums) -> Mask:
    """Whether the energy of each sum's places was read."""
    return judged.segments.is_metered[judged.segment[sums.first]][sums.patch]


def _of_cut(judged: Judged, place: Ints) -> dict[str, Ints]:
    """GPU and job of these places, and when the cuts begin in which they lie."""
    cut = judged.segments.cut[judged.segment[place]]
    return _holder(judged, place) | {"cut_ms": judged.question.cuts[cut]}


def _holder(judged: Judged, place: Ints) -> dict[str, Ints]:
    """GPU and job of these places."""
    owners = judged.timelines.owners
    gpu_id = np.array([owner.member.gpu_id for owner in owners])
    job_id = np.array([owner.job_id for owner in owners])
    timeline = judged.timeline[place]
    return {"gpu_id": gpu_id[timeline], "job_id": job_id[timeline]}


def _worded(kinds: Kinds, by_number: tuple[Label, ...]) -> tuple[Ints, list[Words]]:
    """Each kind's position in the texts, and these."""
    # kinds are small numbers, of which there are few
    different = np.flatnonzero(np.bincount(kinds))
    position = np.searchsorted(different, kinds)
    texts = []
    for kind in different.tolist():
        label, signal, source = labels.named(by_number, kind)
        texts.append((label.state, label.kind, label.reason, signal, source, label.tier))
    return position, texts


def _joules(judged: Judged, sums: Sums, key: Ints) -> Floats:
    """Energy by the `key` of each sum, added place by place, then sum by sum: floats depend on the
    order, which is the same however many hours are judged at once.

    No key is in two columns.
    """
    joules_per_ms = judged.segments.joules_per_ms.take(judged.segment)
    joules = np.zeros(int(key.max()) + 1)
    first = 0
    for (place, gpu_ms), count in zip(judged.amounts(), sums.sizes, strict=True):
        own = slice(first, first + count)
        begins = np.cumsum(sums.count[own]) - sums.count[own]
        of_sums = np.add.reduceat(joules_per_ms.take(place) * gpu_ms, begins)
        joules += np.bincount(key[own], weights=of_sums, minlength=len(joules))
        first += count
    return joules


def _parts(judged: Judged, sums: Sums, is_part: Mask) -> RunParts:
    """The parts of runs with any time, with their milliseconds by state."""
    segments = judged.segments
    first, group = sums.groups(is_part)
    last = np.append(first[1:], len(is_part)) - 1
    states = np.array([STATES.index(label.state) for label in segments.labels])
    state = states[sums.kind >> LABEL_SHIFT]
    state_ms = _table(group, state, sums.gpu_ms, (len(first), len(STATES)))
    return RunParts(
        **_of_cut(judged, first),
        condition=judged.condition[first].astype(np.int64),
        start_ms=segments.start_ms[judged.segment[first]],
        end_ms=segments.end_ms[judged.segment[last]],
        continues=judged.joins_previous[first],
        state_ms=state_ms,
        figures=_figures(judged, first),
    ).where(np.asarray(state_ms.any(axis=1)))


def _table(row: Ints, column: Ints, gpu_ms: Ints, shape: tuple[int, int]) -> Ints:
    """Milliseconds by each sum's row and column."""
    rows, columns = shape
    sums = np.bincount(row * columns + column, weights=gpu_ms, minlength=rows * columns)
    return np.asarray(sums.astype(np.int64).reshape(shape))


def _figures(judged: Judged, first: Ints) -> Floats:
    """Parts (beginning at `first`) x FIGURES: what windows say times the milliseconds that they
    speak for; sums, not means, so that parts of a run add up before anything is divided.
    """
    is_seen = judged.activity.unseen == 0
    spoken = partial(_spoken, judged, first, _spoken_ms(judged.segments))
    seen_ms = spoken(is_seen)
    figures: Floats = np.zeros((len(first), len(FIGURES)))
    for place, values in enumerate(_of_windows(judged)):
        is_read = is_seen & ~np.isnan(values)
        if is_read.any():
            is_all = np.array_equal(is_read, is_seen)
            figures[:, 2 * place] = seen_ms if is_all else spoken(is_read)
            figures[:, 2 * place + 1] = spoken(np.where(is_read, values, 0.0))
    return figures


def _spoken_ms(segments: Segments) -> Floats:
    """The milliseconds of each segment that a window speaks for; 0 of the others."""
    length_ms = (segments.end_ms - segments.start_ms).astype(np.float64)
    length_ms[segments.row < 0] = 0.0
    return length_ms


def _spoken(judged: Judged, first: Ints, spoken_ms: Floats, values: Floats | Mask) -> Floats:
    """The values of windows times the milliseconds that they speak for, by part."""
    if not len(values):
        return np.zeros(len(first))
    product = values.take(judged.segments.row, mode="wrap") * spoken_ms
    return np.asarray(np.add.reduceat(product.take(judged.segment), first))


def _of_windows(judged: Judged) -> tuple[Floats, ...]:
    """What each window says, by figure; NaN where it does not."""
    read = Columns(judged.question.windows)
    # only the flagged time: "spinning not resolvable"
    flagged = np.where(judged.activity.spin_unresolved, 1.0, np.nan)
    return judged.activity.active, read["power_w"], read["memory_used_bytes"], flagged


def _cells(judged: Judged, sums: Sums, is_cell: Mask) -> Table:
    """A row per cell in which a job held a GPU: the patches of jobs by five minutes and label."""
    is_held = _holder(judged, sums.first)["job_id"] != NOBODY
    held = np.flatnonzero(is_held[sums.patch])
    column = _cell_places(judged)[sums.kind[held] >> LABEL_SHIFT]
    first, group = sums.groups(is_cell)
    cell_ms = _table(group[held], column, sums.gpu_ms[held], (len(first), len(NAMES)))
    is_filled = cell_ms.any(axis=1)
    place = first[is_filled]
    start_ms = judged.segments.start_ms[judged.segment[place]] // CELL_MS * CELL_MS
    keys = _holder(judged, place) | {"start_ms": start_ms}
    return cell_states.joined([keys | dict(zip(NAMES, cell_ms[is_filled].T, strict=True))])


def _cell_places(judged: Judged) -> Ints:
    """The column of each label; -1 of those that no job holds."""
    labels_here = judged.segments.labels
    return np.array([_CELL_PLACE.get((label.state, label.tier), -1) for label in labels_here])
