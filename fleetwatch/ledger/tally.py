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
KINDS_OF_LABEL = len(SIGNALS) * len(EFFICIENCY_SOURCES)


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
    kind: list[Ints] = field(default_factory=list)  # label, signal and efficiency source in one number: told() reads it
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
        kind = numbers * KINDS_OF_LABEL
        if signal is not None:
            kind += signal * np.int64(len(EFFICIENCY_SOURCES))
        if source is not None:
            kind += source
        self.atom.append(atom)
        self.kind.append(kind)
        self.gpu_ms.append(gpu_ms)

    def entries(self, *, gpu_id: int, job_id: int | None, cut: Ints, cut_starts: Ints, joules_per_ms: Floats) -> list[Entry]:
        """One entry per cut and label; `cut` and `joules_per_ms` (NaN = not read) are per atom.

        Time with and without a reading of energy stays apart: a sum never passes off missing joules as none.
        """
        if not self.atom:
            return []
        atom, kind, gpu_ms = self._joined()
        rate = joules_per_ms[atom]
        is_read = ~np.isnan(rate)
        kinds = len(self.labels) * KINDS_OF_LABEL
        first_cut = int(cut[int(atom.min())])
        starts = cut_starts[first_cut:].tolist()
        key = (cut[atom] - first_cut) * kinds + kind
        key += key
        key += is_read
        milliseconds = np.bincount(key, weights=gpu_ms)
        joules = np.bincount(key, weights=np.where(is_read, rate, 0.0) * gpu_ms)
        found = np.flatnonzero(milliseconds)
        entries: list[Entry] = []
        told: dict[int, tuple[Label, str, str]] = {}
        for position in found.tolist():
            rest, has_energy = divmod(position, 2)
            at, number = divmod(rest, kinds)
            label, signal, source = told.get(number) or told.setdefault(number, self.told(number))
            entries.append(
                Entry(
                    gpu_id=gpu_id,
                    cut_ms=starts[at],
                    job_id=job_id,
                    state=label.state,
                    kind=label.kind,
                    reason=label.reason,
                    signal=signal,
                    efficiency_source=source,
                    tier=label.tier,
                    gpu_ms=int(milliseconds[position]),
                    energy_j=float(joules[position]) if has_energy else None,
                )
            )
        return entries

    def told(self, kind: int) -> tuple[Label, str, str]:
        """The label, activity signal and efficiency source of a kind."""
        number, rest = divmod(kind, KINDS_OF_LABEL)
        signal, source = divmod(rest, len(EFFICIENCY_SOURCES))
        return list(self.labels)[number], SIGNALS[signal], EFFICIENCY_SOURCES[source]

    def state_ms(self, *, part_of_atom: Ints, parts: int) -> Ints:
        """Milliseconds per part (rows) and state (columns, in the order of STATES); atoms in no part (-1) are left out."""
        if not self.atom:
            return np.zeros((parts, len(STATES)), dtype=np.int64)
        atom, kind, gpu_ms = self._joined()
        states = np.array([STATE_NUMBER[label.state] for label in self.labels], dtype=np.int64).repeat(KINDS_OF_LABEL)
        # one part more, for the atoms in none
        key = part_of_atom[atom] * len(STATES) + states[kind] + len(STATES)
        sums = np.bincount(key, weights=gpu_ms, minlength=(parts + 1) * len(STATES))
        return np.asarray(sums[len(STATES) :].astype(np.int64).reshape(parts, len(STATES)))

    def _joined(self) -> tuple[Ints, Ints, Ints]:
        """The pieces as one; they are joined once, when all are there."""
        if len(self.atom) > 1:
            self.atom, self.kind, self.gpu_ms = ([np.concatenate(pieces)] for pieces in (self.atom, self.kind, self.gpu_ms))
        return self.atom[0], self.kind[0], self.gpu_ms[0]


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
