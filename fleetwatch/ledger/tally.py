"""Adding up judged milliseconds into entries and parts of runs: summed once, from whole milliseconds. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.activity import EFFICIENCY_SOURCES, SIGNALS
from fleetwatch.ledger.facts import Entry, Floats, Ints, Mask
from fleetwatch.ledger.policy import STATES

STATE_NUMBER = {state: number for number, state in enumerate(STATES)}
Codes = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Label:
    """What an entry says beside its time: state, sub-kind, reason, waste tier."""

    state: str
    kind: str = ""
    reason: str = ""
    tier: str = ""


@dataclass(slots=True)
class Tally:
    """Judged milliseconds of one GPU and holder, collected piece by piece. `atom` is a position in its timeline."""

    atom: list[Ints] = field(default_factory=list)
    label: list[Ints] = field(default_factory=list)
    signal: list[Codes] = field(default_factory=list)
    source: list[Codes] = field(default_factory=list)
    gpu_ms: list[Ints] = field(default_factory=list)
    labels: dict[Label, int] = field(default_factory=dict)
    # every atom that was judged and its label, those outside the wanted time too: other lanes look at them
    context_atom: list[Ints] = field(default_factory=list)
    context_label: list[Ints] = field(default_factory=list)

    def number(self, label: Label) -> int:
        """The label's number in this tally."""
        return self.labels.setdefault(label, len(self.labels))

    def add(self, atom: Ints, label: Label | Ints, gpu_ms: Ints, *, signal: Codes | None = None, source: Codes | None = None) -> None:
        """Adds these atoms' milliseconds under a label (or one label's number per atom)."""
        if len(atom) == 0:
            return
        numbers = np.full(len(atom), self.number(label), dtype=np.int64) if isinstance(label, Label) else label
        nothing = np.zeros(len(atom), dtype=np.int8)
        self.atom.append(atom)
        self.label.append(numbers)
        self.gpu_ms.append(gpu_ms)
        self.signal.append(nothing if signal is None else signal)
        self.source.append(nothing if source is None else source)

    def entries(self, *, gpu_id: int, job_id: int | None, cut: Ints, cut_starts: Ints, joules_per_ms: Floats) -> list[Entry]:
        """One entry per cut and label; `cut` and `joules_per_ms` (NaN = not read) are per atom.

        Time with and without a reading of energy stays apart: a sum never passes off missing joules as none.
        """
        if not self.atom:
            return []
        atom, gpu_ms = np.concatenate(self.atom), np.concatenate(self.gpu_ms)
        rate = joules_per_ms[atom]
        is_read = ~np.isnan(rate)
        sizes = (len(self.labels), len(SIGNALS), len(EFFICIENCY_SOURCES), 2)
        first_cut = int(cut[atom].min())
        key = cut[atom] - first_cut
        parts: list[Ints] = [np.concatenate(self.label), np.concatenate(self.signal), np.concatenate(self.source), is_read.astype(np.int64)]
        for size, part in zip(sizes, parts, strict=True):
            key = key * size + part
        milliseconds = np.bincount(key, weights=gpu_ms)
        joules = np.bincount(key, weights=np.where(is_read, rate, 0.0) * gpu_ms)
        found = np.flatnonzero(milliseconds)
        labels = list(self.labels)
        entries = []
        for position in found.tolist():
            rest, has_energy = divmod(position, 2)
            rest, source = divmod(rest, sizes[2])
            rest, signal = divmod(rest, sizes[1])
            at, label_number = divmod(rest, sizes[0])
            label = labels[label_number]
            entries.append(
                Entry(
                    gpu_id=gpu_id,
                    cut_ms=int(cut_starts[at + first_cut]),
                    job_id=job_id,
                    state=label.state,
                    kind=label.kind,
                    reason=label.reason,
                    signal=SIGNALS[signal],
                    efficiency_source=EFFICIENCY_SOURCES[source],
                    tier=label.tier,
                    gpu_ms=int(milliseconds[position]),
                    energy_j=float(joules[position]) if has_energy else None,
                )
            )
        return entries

    def state_ms(self, *, part_of_atom: Ints, parts: int) -> Ints:
        """Milliseconds per part (rows) and state (columns, in the order of STATES); atoms in no part (-1) are left out."""
        if not self.atom:
            return np.zeros((parts, len(STATES)), dtype=np.int64)
        state = np.array([STATE_NUMBER[label.state] for label in self.labels], dtype=np.int64)[np.concatenate(self.label)]
        part = part_of_atom[np.concatenate(self.atom)]
        inside = part >= 0
        key = part[inside] * len(STATES) + state[inside]
        sums = np.bincount(key, weights=np.concatenate(self.gpu_ms)[inside], minlength=parts * len(STATES))
        return np.asarray(sums.astype(np.int64).reshape(parts, len(STATES)))


def label_numbers(tally: Tally, labels: Sequence[Label], codes: NDArray[np.int64]) -> Ints:
    """The tally's number of labels[code] for each code."""
    return np.array([tally.number(label) for label in labels], dtype=np.int64)[codes]


def figure_sums(starts: Ints, *, weights_ms: Ints, columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """Per part (beginning at `starts`): ms in which each column was read, and the sum of value x ms.

    Sums, not means: parts of a run add up before anything is divided.
    """
    sums: dict[str, Floats] = {}
    for name, values in columns.items():
        is_read: Mask = ~np.isnan(values)
        sums[f"{name}_ms"] = np.add.reduceat(np.where(is_read, weights_ms, 0), starts).astype(np.float64)
        sums[f"{name}_sum"] = np.add.reduceat(np.where(is_read, values, 0.0) * weights_ms, starts)
    return sums
