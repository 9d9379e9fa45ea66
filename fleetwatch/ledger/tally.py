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
KindCodes = NDArray[np.int16]
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
    kind: list[KindCodes] = field(default_factory=list)  # label, signal and efficiency source in one number: told() reads it
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
        kind = (numbers * KINDS_OF_LABEL).astype(np.int16)
        if signal is not None:
            kind += signal * np.int8(len(EFFICIENCY_SOURCES))
        if source is not None:
            kind += source
        self.atom.append(atom)
        self.kind.append(kind)
        self.gpu_ms.append(gpu_ms)

    def sums(self, slot: Ints) -> "Sums":
        """What was added by `slot` (of each atom; it never falls) and kind, of neighbours alone: whole ms, which any order sums alike."""
        atom, kind, gpu_ms = self._joined()
        slots = slot[atom]
        is_first = np.ones(len(atom), dtype=bool)
        is_first[1:] = (slots[1:] != slots[:-1]) | (kind[1:] != kind[:-1])
        first = np.flatnonzero(is_first)
        return Sums(slots[first], kind[first].astype(np.int64), np.add.reduceat(gpu_ms, first), np.diff(first, append=len(atom)))

    def joules(self, sums: "Sums", key: Ints, *, joules_per_ms: Floats) -> Floats:
        """Energy by the `key` of each sum, added atom by atom: floats depend on the order. `joules_per_ms` is per atom, 0 = not read."""
        atom, _, gpu_ms = self._joined()
        return np.bincount(np.repeat(key, sums.pieces), weights=joules_per_ms[atom] * gpu_ms).astype(np.float64, copy=False)

    def told(self, kind: int) -> tuple[Label, str, str]:
        """The label, activity signal and efficiency source of a kind."""
        number, rest = divmod(kind, KINDS_OF_LABEL)
        signal, source = divmod(rest, len(EFFICIENCY_SOURCES))
        return list(self.labels)[number], SIGNALS[signal], EFFICIENCY_SOURCES[source]

    def _joined(self) -> tuple[Ints, KindCodes, Ints]:
        """The pieces as one; they are joined once, when all are there."""
        if len(self.atom) > 1:
            self.atom, self.kind, self.gpu_ms = [np.concatenate(self.atom)], [np.concatenate(self.kind)], [np.concatenate(self.gpu_ms)]
        return self.atom[0], self.kind[0], self.gpu_ms[0]


def label_numbers(tally: Tally, labels: Sequence[Label], codes: NDArray[np.int64]) -> Ints:
    """The tally's number of labels[code] for each code."""
    return np.array([tally.number(label) for label in labels], dtype=np.int64)[codes]


@dataclass(frozen=True, slots=True)
class Sums:
    """A tally's milliseconds by slot and kind; `pieces`: how many of the tally's values each is made of, in their order."""

    slot: Ints
    kind: Ints
    gpu_ms: Ints
    pieces: Ints


def entries(
    tally: Tally, sums: Sums, *, gpu_id: int, job_id: int | None, cut: Ints, cut_starts: Ints, is_read: Mask, joules_per_ms: Floats
) -> list[Entry]:
    """One entry per cut and label; `cut` and `is_read` (its energy) of each slot, `joules_per_ms` per atom, 0 where not read.

    Time with and without a reading of energy stays apart: a sum never passes off missing joules as none.
    """
    kinds = len(tally.labels) * KINDS_OF_LABEL
    first_cut = int(cut[0])
    starts = cut_starts[first_cut:].tolist()
    key = ((cut[sums.slot] - first_cut) * kinds + sums.kind) * 2 + is_read[sums.slot]
    milliseconds = np.bincount(key, weights=sums.gpu_ms)
    joules = tally.joules(sums, key, joules_per_ms=joules_per_ms)
    found = np.flatnonzero(milliseconds)
    made: list[Entry] = []
    told: dict[int, tuple[Label, str, str]] = {}
    for position, gpu_ms, energy_j in zip(found.tolist(), milliseconds[found].tolist(), joules[found].tolist(), strict=True):
        rest, has_energy = divmod(position, 2)
        at, number = divmod(rest, kinds)
        label, signal, source = told.get(number) or told.setdefault(number, tally.told(number))
        made.append(
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
                gpu_ms=int(gpu_ms),
                energy_j=energy_j if has_energy else None,
            )
        )
    return made


def state_ms(tally: Tally, sums: Sums, *, part: Ints, parts: int) -> Ints:
    """Milliseconds per part (rows) and state (columns, in the order of STATES); `part` of each slot."""
    states = np.array([STATE_NUMBER[label.state] for label in tally.labels], dtype=np.int64).repeat(KINDS_OF_LABEL)
    key = part[sums.slot] * len(STATES) + states[sums.kind]
    return np.asarray(np.bincount(key, weights=sums.gpu_ms, minlength=parts * len(STATES)).astype(np.int64).reshape(parts, len(STATES)))


@dataclass(frozen=True, slots=True)
class Figure:
    """A column over a timeline: of each atom the ms in which it was read (all or none), and value x ms."""

    read_ms: Floats
    value_ms: Floats

    @classmethod
    def of(cls, values: Floats, length_ms: Ints) -> "Figure":
        """The figure of these values, NaN where not read."""
        is_read: Mask = ~np.isnan(values)
        return cls(np.where(is_read, length_ms, 0.0), np.where(is_read, values, 0.0) * length_ms)

    def part(self, some: slice | Ints) -> "Figure":
        """The same of these atoms alone."""
        return Figure(self.read_ms[some], self.value_ms[some])


def figure_sums(starts: Ints, figures: Mapping[str, Figure]) -> dict[str, Floats]:
    """Per part (beginning at `starts`): ms in which each column was read, and the sum of value x ms.

    Sums, not means: parts of a run add up before anything is divided.
    """
    sums: dict[str, Floats] = {}
    for name, figure in figures.items():
        sums[f"{name}_ms"] = np.add.reduceat(figure.read_ms, starts)
        sums[f"{name}_sum"] = np.add.reduceat(figure.value_ms, starts)
    return sums
