"""What a detector says of all lanes and cells at once: where its rule holds, how surely, and by
which signs. Pure numpy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.judgement.features import SHORT, Features
from fleetwatch.ledger.judgement.observations import Floats, Mask

Levels = NDArray[np.int8]
Share = Floats | float

NO_WORD, LOW, MEDIUM, HIGH = range(4)
CONFIDENCES = ("", "low", "medium", "high")
# When a rule is asked: what the ledger calls idle first, then pauses of a session, then work.
OF_IDLE, OF_SESSIONS, OF_WORK = range(3)

COVERAGE = 0.6  # observed ÷ held, below which nothing is said
IDLE = 0.5  # of the cell: the ledger has judged the whole run, this only assigns its edges


@dataclass(frozen=True, slots=True)
class Sign:
    """One comparison of a rule: a feature at least (or below) a bound.

    What was not read meets nothing.
    """

    feature: str
    values: Floats
    bound: float
    is_lower_bound: bool

    @property
    def met(self) -> Mask:
        return self.values >= self.bound if self.is_lower_bound else self.values < self.bound


def at_least(f: Features, feature: str, bound: float) -> Sign:
    """The feature is read and not below the bound."""
    return Sign(feature, f[feature], bound, is_lower_bound=True)


def below(f: Features, feature: str, bound: float) -> Sign:
    """The feature is read and below the bound."""
    return Sign(feature, f[feature], bound, is_lower_bound=False)


def all_met(signs: Sequence[Sign]) -> Mask:
    """Where every sign is met."""
    met: Mask = np.logical_and.reduce([sign.met for sign in signs])
    return met


def all_idle(f: Features) -> tuple[Sign, ...]:
    """The ledger calls this GPU idle and every other GPU of the job too (docs/ledger.md says from
    when on).
    """
    return at_least(f, "ledger_idle", IDLE), at_least(f, "job_ledger_idle_min", IDLE)


def contradicts(sign: Sign) -> Mask:
    """Where the sign was read and is not met: what was not read contradicts nothing."""
    return ~sign.met & ~np.isnan(sign.values)


def any_met(signs: Sequence[Sign]) -> Mask:
    """Where one of the signs is met."""
    met: Mask = np.logical_or.reduce([sign.met for sign in signs])
    return met


def any_contradicts(signs: Sequence[Sign]) -> Mask:
    """Where one of the signs was read and is not met."""
    is_contradicted: Mask = np.logical_or.reduce([contradicts(sign) for sign in signs])
    return is_contradicted


@dataclass(frozen=True, slots=True)
class Judged:
    """Where a rule holds, over lanes x cells.

    `confidence` is one of LOW, MEDIUM, HIGH where it does. `low` and `high` are the recoverable
    share of the affected GPU time, 0 to 1. `signs` are what was compared, for the evidence;
    `strengthens` are signs that need not be met. `possible` is where the rule would hold but for a
    sensor that was not read: no verdict, but not ruled out either.
    """

    hits: Mask
    confidence: Levels
    low: Floats
    high: Floats
    signs: tuple[Sign, ...]
    strengthens: tuple[Sign, ...]
    possible: Mask


@dataclass(frozen=True, slots=True)
class Detector:
    """A rule of a cause, and the lengths of window on which it is judged.

    `shows` is what one cell of five minutes has of the cause, where the rule itself needs more than
    one; None: the rule. Of the first `spared` cells of a stretch nothing can be recovered: so long
    nobody and nothing can know it. `begins` is what the cell shows in which it begins, where the
    rule can't hold of what came before. What `is_told` of a job as a whole needs no second window.
    Of a GPU that several jobs hold at once nothing is said unless `holds_of_shared`: what the rule
    reads is then true of each of them.
    """

    find: Callable[[Features], Judged]
    lengths: tuple[int, ...] = (SHORT,)
    shows: Callable[[Features], Mask] | None = None
    begins: Callable[[Features], Mask] | None = None
    spared: int = 0
    holds_of_shared: bool = False
    is_told: bool = False
    # not of the compute units but of engines beside them: where these do more than the units
    lead: Callable[[Features], Mask] | None = None
    turn: int = OF_WORK  # of one turn rules are asked in the order of causes

    def shown(self, alone: Features) -> Mask:
        """Where a cell by itself has something of the cause."""
        return self.shows(alone) if self.shows else self.find(alone).hits

    @property
    def is_of_running_work(self) -> bool:
        """Whether it says nothing while a job warms up."""
        return self.turn == OF_WORK and not self.is_told


def judged(
    signs: Sequence[Sign],
    *,
    confidence: Levels | int,
    hits: Mask | None = None,
    recoverable: tuple[Share, Share] = (0.0, 0.0),
    strengthens: Sequence[Sign] = (),
    possible: Mask | None = None,
) -> Judged:
    """A Judged from scalars or arrays, where every sign is met unless `hits` says where; shares are
    kept within 0 to 1, and 0 where the rule does not hold. `possible` None: nowhere else.
    """
    where = all_met(signs) if hits is None else hits
    low, high = (_share(share, where) for share in recoverable)
    return Judged(
        where,
        np.where(where, confidence, NO_WORD).astype(np.int8),
        low,
        high,
        tuple(signs),
        tuple(strengthens),
        possible=np.zeros_like(where) if possible is None else possible,
    )


def _share(share: Share, hits: Mask) -> Floats:
    kept = np.zeros(hits.shape)
    if hits.any():
        kept[hits] = np.clip(np.nan_to_num(np.broadcast_to(share, hits.shape)[hits]), 0.0, 1.0)
    return kept


def less_sure(level: int, *missing: Mask) -> Levels:
    """The level, one lower for each sensor that is missing, but never below LOW."""
    lost = np.sum([where.astype(np.int8) for where in missing], axis=0)
    sure: Levels = np.maximum(level - lost, LOW).astype(np.int8)
    return sure
