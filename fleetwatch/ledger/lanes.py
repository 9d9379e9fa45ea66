"""Lanes: each holder's view of its GPU, and nobody's, one after the other. Pure numpy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger import atoms as windows
from fleetwatch.ledger import nobody
from fleetwatch.ledger.atoms import UNSEEN_MASK, Atoms, Said, Words
from fleetwatch.ledger.nobody import Nobody
from fleetwatch.ledger.observations import Ints, Mask, Spans
from fleetwatch.ledger.policy import Policy

# What an atom is to a holder's lane.
BARRIER, GAP, QUIET, BLIP, BUSY = range(5)
Codes = NDArray[np.int8]

# the code of what a window says, by its lowest bits
_SAYS = UNSEEN_MASK | windows.QUIET | windows.BLIP
_CODES = np.array(
    [
        GAP
        if said & UNSEEN_MASK
        else QUIET
        if said & windows.QUIET
        else BLIP
        if said & windows.BLIP
        else BUSY
        for said in range(_SAYS + 1)
    ],
    dtype=np.int8,
)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose time a lane is: a job's (None: nobody's) on a member, which it held over the spans."""

    member: int
    job_id: int | None
    kind: str = ""
    spans: Spans = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """All lanes of a node, those of nobody first; one value per position, which is an atom in a
    lane.
    """

    whose: Sequence[Whose]
    first: Ints  # each lane's first position; after the last one, how many there are
    nobodys: int  # how many positions are in lanes of nobody
    lane: Ints
    atom: Ints
    word: Words  # what the window says
    own: Mask
    gpu_ms: Ints  # of what is its own
    code: Codes
    stretches: "Stretches"


@dataclass(frozen=True, slots=True)
class Stretches:
    """The longest stretches of one code in one lane.

    `closed`: the codes with every gap that no run continues across turned into a barrier.
    """

    first: Ints  # positions
    last: Ints
    lane: Ints
    code: Codes
    closed: Codes
    start_ms: Ints
    end_ms: Ints
    is_first: Mask  # of its lane
    is_last: Mask

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value per stretch for each of its positions."""
        return np.repeat(values, self.last + 1 - self.first)

    def at(self, position: Ints) -> Ints:
        """The stretch that each position is in."""
        return np.searchsorted(self.first, position, side="right") - 1


def laid(atoms: Atoms, said: Said, rest: Nobody, policy: Policy) -> Lanes:
    """The lanes of all members: what nobody holds, then each holder."""
    is_gap = nobody.gaps(atoms, rest)
    bounds = np.searchsorted(rest.atom, atoms.first).tolist()
    whose = [
        Whose(member, None)
        for member in range(len(atoms.members))
        if bounds[member] < bounds[member + 1]
    ]
    sizes = [bounds[one.member + 1] - bounds[one.member] for one in whose]
    parts = [(rest.atom, rest.own, atoms.rest_ms[rest.atom])]
    for one, part in _holders(atoms, is_gap):
        whose.append(one)
        parts.append(part)
        sizes.append(len(part[0]))
    atom, own, gpu_ms = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    lane = np.repeat(np.arange(len(sizes)), sizes)
    word = said.word[atoms.row[atom]]
    code = _codes(atoms, rest, is_gap, atom=atom, own=own, word=word)
    found = _stretches(atoms, said, lane=lane, atom=atom, code=code, policy=policy)
    return Lanes(
        whose,
        np.append(0, np.cumsum(sizes)),
        len(rest.atom),
        lane,
        atom,
        word,
        own,
        gpu_ms,
        code,
        found,
    )


def _holders(atoms: Atoms, is_gap: Mask) -> Iterator[tuple[Whose, tuple[Ints, Mask, Ints]]]:
    """Of each holder whose lane it is, and (atoms, which are its own, its milliseconds)."""
    for number, member in enumerate(atoms.members):
        begin, end = atoms.first[number], atoms.first[number + 1]
        for holder in member.holders:
            low, high = _reach(holder.held, is_gap[begin:end])
            told = (
                np.arange(begin + low, begin + high),
                holder.held[low:high],
                holder.gpu_ms[low:high],
            )
            yield Whose(number, holder.job_id, holder.kind, holder.spans), told


def _reach(held: Mask, is_gap: Mask) -> tuple[int, int]:
    """What a holder's lane spans: its runs end with what is known on both sides of its time."""
    low, high = int(held.argmax()), len(held) - int(held[::-1].argmax())
    before, after = is_gap[:low][::-1], is_gap[high:]
    low -= int(before.argmin()) + 1 if not before.all() else low
    high += int(after.argmin()) + 1 if not after.all() else len(after)
    return low, high


def _codes(
    atoms: Atoms, rest: Nobody, is_gap: Mask, *, atom: Ints, own: Mask, word: Words
) -> Codes:
    """What each position's atom is to its lane."""
    code: Codes = _CODES[word & np.uint16(_SAYS)]
    if atoms.down is not None and atoms.is_drained is not None:
        code[(atoms.down[atom] >= 0) & ~atoms.is_drained[atom]] = BARRIER
    other = np.flatnonzero(~own)
    code[other] = np.where(is_gap[atom[other]], GAP, BARRIER)
    # nobody is idle: what nobody holds is known or not
    is_unknown = atoms.is_unobserved[rest.label]
    code[: len(rest.atom)] = np.where(rest.own, np.where(is_unknown, GAP, BUSY), BARRIER)
    return code


def _stretches(
    atoms: Atoms, said: Said, *, lane: Ints, atom: Ints, code: Codes, policy: Policy
) -> Stretches:
    """The stretches of these positions, of which there are some."""
    is_begun = np.ones(len(code), dtype=bool)
    is_begun[1:] = (code[1:] != code[:-1]) | (lane[1:] != lane[:-1])
    first = np.flatnonzero(is_begun)
    last = np.append(first[1:], len(code)) - 1
    of_lane = lane[first]
    other = of_lane[1:] != of_lane[:-1]
    is_first, is_last = np.append(True, other), np.append(other, True)
    start_ms, end_ms = atoms.start_ms[atom[first]], atoms.end_ms[atom[last]]
    own_code = code[first]
    gap_ms = np.append(start_ms[1:], 0) - np.append(0, end_ms[:-1])
    bridge_ms = policy.bridge_windows * said.length_ms[atoms.row[atom[np.append(0, last[:-1])]]]
    is_closed = (own_code == GAP) & (is_first | is_last | (gap_ms > bridge_ms))
    closed = np.where(is_closed, np.int8(BARRIER), own_code)
    return Stretches(first, last, of_lane, own_code, closed, start_ms, end_ms, is_first, is_last)
