"""A holder's observed milliseconds: useful, underused, stalled, idle or starting. Pure numpy."""

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.activity import CONTEXT_KINDS, Activity
from fleetwatch.ledger.facts import Floats, Ints
from fleetwatch.ledger.family import Holder, Member
from fleetwatch.ledger.lanes import IDLE, STARTING, QuietRuns
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.shares import largest_remainder
from fleetwatch.ledger.tally import Label, Tally, label_numbers

USEFUL = Label("useful")
UNDERUSED = Label("underused", tier="potential")
STARTING_LABEL = Label("starting")
WITHIN, GAP, IDLE_FIRST = 0, 1, 2


def add_activity(tally: Tally, atom: Ints, *, holder: Holder, member: Member, found: QuietRuns, acts: Activity, policy: Policy) -> None:
    """Adds the holder's milliseconds of these observed atoms by what the GPU did in them."""
    row, rest = member.row[atom], holder.gpu_ms[atom]
    run, signals = found.run[atom], acts.signal[row]
    busy = np.flatnonzero(~acts.quiet[row])
    if len(busy):
        parts = _split(acts, row[busy], rest[busy])
        rest[busy] = parts[:, 3]
        signal, source = signals[busy], acts.efficiency_source[row[busy]]
        spinning = Label("stalled", kind="spinning", tier=stalled_tier(holder.kind))
        _add(tally, atom[busy], tally.number(USEFUL), parts[:, 0], signal=signal, source=source)
        _add(tally, atom[busy], tally.number(UNDERUSED), parts[:, 1], signal=signal, source=source)
        _add(tally, atom[busy], tally.number(spinning), parts[:, 2], signal=signal)
    number = _rest_labels(tally, run, row, holder=holder, found=found, acts=acts)
    if (found.verdict == STARTING).any():
        starting = _starting_ms(atom, run, rest, member=member, found=found, grace_ms=policy.grace_ms(holder.kind))
        rest -= starting
        _add(tally, atom, tally.number(STARTING_LABEL), starting, signal=signals)
    _add(tally, atom, number, rest, signal=signals)


def stalled_tier(kind: str) -> str:
    """The waste tier of a stall: waiting for requests is a service's nature."""
    return "potential" if kind == "service" else "probable"


def _split(acts: Activity, row: Ints, total: Ints) -> Ints:
    """Cells x (useful, underused, spinning, inactive) in whole milliseconds."""
    spinning, working, efficiency = acts.spinning[row], acts.working[row], acts.efficiency[row]
    useful = working * efficiency
    weights: Floats = np.stack([useful, working - useful, spinning, np.maximum(1.0 - spinning - working, 0.0)])
    return largest_remainder(total, weights.T)


def _starting_ms(atom: Ints, run: Ints, rest: Ints, *, member: Member, found: QuietRuns, grace_ms: int) -> Ints:
    """How much of the rest is `starting`: in a run that starts, the time up to the grace."""
    number = np.maximum(run, 0)
    is_starting = (run >= 0) & (found.verdict[number] == STARTING)
    start, length = member.atoms.start_ms[atom], member.atoms.length_ms[atom]
    within = np.clip(found.start_ms[number] + grace_ms - start, 0, length)
    return np.where(is_starting, rest * within // length, 0)


def _rest_labels(tally: Tally, run: Ints, row: Ints, *, holder: Holder, found: QuietRuns, acts: Activity) -> Ints:
    """The label of the inactive time: idle in a run of T_idle, else stalled, between windows (gap) or within one."""
    tier = stalled_tier(holder.kind)
    kinds = ("interactive",) * 3 if holder.kind == "interactive" else CONTEXT_KINDS
    idle = [Label("idle", kind=kind, tier=certainty) for kind in kinds for certainty in ("probable", "certain")]
    labels = [Label("stalled", kind="within", tier=tier), Label("stalled", kind="gap", tier=tier), *idle]
    if not len(found.verdict):
        return label_numbers(tally, labels, np.full(len(run), WITHIN, dtype=np.int64))
    is_idle = (run >= 0) & (found.verdict[np.maximum(run, 0)] == IDLE)
    idle_code = IDLE_FIRST + 2 * acts.context[row].astype(np.int64) + acts.zero[row]
    return label_numbers(tally, labels, np.where(is_idle, idle_code, np.where(run >= 0, GAP, WITHIN)))


def _add(
    tally: Tally, atom: Ints, number: int | Ints, gpu_ms: Ints, *, signal: NDArray[np.int8], source: NDArray[np.int8] | None = None
) -> None:
    keep = np.flatnonzero(gpu_ms)
    if len(keep) == 0:
        return
    numbers = np.full(len(keep), number, dtype=np.int64) if isinstance(number, int) else number[keep]
    tally.add(atom[keep], numbers, gpu_ms[keep], signal=signal[keep], source=None if source is None else source[keep])
