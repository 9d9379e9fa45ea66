"""The terms of a figure, state by state, each with what it prints. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

from fleetwatch.dashboard.words import BY_NAME
from fleetwatch.figures.breakdown import Term
from fleetwatch.lib.intervals import HOUR_MS

SMALL_MS = HOUR_MS // 20  # less than that says nothing beside larger terms
Printed = tuple[Term, Decimal, Decimal]  # with its GPU-hours and dollars as they are shown


@dataclass(frozen=True, slots=True)
class Sums:
    """What several terms come to, exactly and as it is printed."""

    count: int
    gpu_ms: int
    usd: Decimal
    shown_hours: Decimal
    shown_usd: Decimal

    @classmethod
    def of(cls, terms: Sequence[Printed]) -> "Sums":
        return cls(
            len(terms),
            sum(term.gpu_ms for term, _, _ in terms),
            sum((term.usd or Decimal(0) for term, _, _ in terms), Decimal(0)),
            sum((hours for _, hours, _ in terms), Decimal(0)),
            sum((usd for _, _, usd in terms), Decimal(0)),
        )


@dataclass(frozen=True, slots=True)
class StateTerms:
    """A state's terms but for small ones; `small` None = there is at most one, `whole` None = there
    is one term.
    """

    state: str
    rule: str
    terms: Sequence[Printed]
    small: Sums | None
    whole: Sums | None


def by_state(terms: Iterable[Printed]) -> list[StateTerms]:
    """Of terms that stand state by state."""
    return [_of_state(state, list(own)) for state, own in groupby(terms, lambda row: row[0].shown)]


def _of_state(state: str, own: list[Printed]) -> StateTerms:
    small = [row for row in own if row[0].gpu_ms < SMALL_MS]
    is_folded = 1 < len(small) < len(own)
    return StateTerms(
        state,
        BY_NAME[state].meaning,
        [row for row in own if row not in small] if is_folded else own,
        Sums.of(small) if is_folded else None,
        Sums.of(own) if len(own) > 1 else None,
    )
