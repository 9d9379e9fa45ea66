"""The time that nobody holds: unavailable, unobserved, orphaned or free. Pure numpy."""

from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger import activity, timeline
from fleetwatch.ledger.activity import NO_SIGNAL
from fleetwatch.ledger.atoms import UNSEEN_MASK, Atoms, Said
from fleetwatch.ledger.labels import FREE, HOLDER, NUMBER, UNSEEN, Kinds, numbers
from fleetwatch.ledger.observations import Ints, Mask, Question, column

_UNSEEN = numbers(UNSEEN[:1] + UNSEEN)  # by why a window says nothing, from 1 on
_HOLDER = numbers(HOLDER)

# A job's processes may outlive it by so long: Slurm waits 30 s before it kills (KillWait),
# Kubernetes as long by default, and
# its epilog and the driver come after that. Until then what holds the GPU is the job's, that was
# let go, and no orphan.
LEAVING_MS = 60_000


@dataclass(frozen=True, slots=True)
class Nobody:
    """The atoms with time that nobody holds and those beside them: what lies farther away decides
    nothing.
    """

    atom: Ints
    own: Mask
    label: Kinds  # number of the label; means nothing where it is not its own


def judge(question: Question, atoms: Atoms, said: Said) -> Nobody:
    """What nobody holds, and what it is."""
    has_rest = atoms.rest_ms > 0
    near = has_rest.copy()
    near[1:] |= has_rest[:-1]
    near[:-1] |= has_rest[1:]
    atom = np.flatnonzero(near)
    label = _labels(question, atoms, said, atom)
    label[atoms.rest_is_free[atom]] = NUMBER[FREE]
    if atoms.down is not None:
        label = np.where(atoms.down[atom] >= 0, atoms.down[atom], label)
    return Nobody(atom, has_rest[atom], label)


def _labels(question: Question, atoms: Atoms, said: Said, atom: Ints) -> Kinds:
    row = atoms.row[atom]
    unseen = said.word[row] & np.uint16(UNSEEN_MASK)
    label: Kinds = _UNSEEN[unseen]
    told = np.flatnonzero((unseen == 0) | (unseen == NO_SIGNAL))
    if len(told):
        row, is_mute = row[told], unseen[told] == NO_SIGNAL
        is_unread = is_mute & np.isnan(column(question.windows, "process_count")[row])
        hold = _held_by(
            question, atoms, atom=atom[told], row=row, works=said.works[row], is_unread=is_unread
        )
        # that nobody holds it needs no activity signal; whatever else does
        label[told] = np.where(is_mute & (hold != activity.NOTHING), label[told], _HOLDER[hold])
    return label


def _held_by(
    question: Question, atoms: Atoms, *, atom: Ints, row: Ints, works: Mask, is_unread: Mask
) -> Ints:
    """What holds it, of atoms whose windows speak; `is_unread`: of its activity and processes
    nothing was read.
    """
    answered, unknown = timeline.scheduler_status(question.sources)
    start_ms = atoms.start_ms[atom]
    is_answered, is_silent = (
        timeline.is_within(start_ms, answered),
        timeline.is_within(start_ms, unknown),
    )
    # windows that a holder's time shares saw the holder's process, not an orphan
    is_held = atoms.held > 0
    # one more, for no window (-1)
    is_explained = np.zeros(len(question.windows.gpu_id) + 1, dtype=bool)
    is_explained[atoms.row[is_held]] = True
    scheduled, bare = activity.holds(question.windows, row, question.policy)
    is_explained_here = is_explained[row] | _is_just_left(atoms)[atom]
    # whose work it is may be unknown to the scheduler too: a GPU that works is not free
    scheduled = np.where(works & (scheduled == activity.NOTHING), activity.WORK, scheduled)
    scheduled = np.where(
        is_explained_here & (scheduled != activity.UNKNOWN), activity.NOTHING, scheduled
    )
    bare = np.where(works & (bare == activity.NOTHING), activity.WORK, bare)
    bare = np.where(is_unread & (bare == activity.NOTHING), activity.UNKNOWN, bare)
    hold = np.where(is_silent, activity.UNKNOWN, np.where(is_answered, scheduled, bare))
    # what granted shares leave of a held GPU is free, but where nobody knows whom else it was given
    # to
    return np.where(is_held[atom] & (hold != activity.UNKNOWN), activity.NOTHING, hold)


def _is_just_left(atoms: Atoms) -> Mask:
    """Of all atoms those that begin within LEAVING_MS of the end of one that was held, on the same
    GPU.
    """
    held = np.where(atoms.held > 0, np.arange(len(atoms.held)), -1)
    last_held = np.maximum.accumulate(held)
    first_of_member = np.repeat(atoms.first[:-1], np.diff(atoms.first))
    since_ms: Ints = atoms.start_ms - atoms.end_ms[last_held]
    return (last_held >= first_of_member) & (since_ms < LEAVING_MS)


def gaps(atoms: Atoms, nobody: Nobody) -> Mask:
    """Of all atoms those that nobody holds and nobody knows of."""
    found = np.zeros(len(atoms.start_ms), dtype=bool)
    own = nobody.atom[nobody.own & atoms.is_unobserved[nobody.label]]
    found[own] = atoms.held[own] == 0
    return found
