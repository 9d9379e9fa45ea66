"""Of a rule that was tried on history which longer wait, or later end, is worth its price. Pure."""

from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.alerts.back_test import BackTest

KEPT = Decimal("0.8")  # of the dollars, which a longer wait should still tell of
JOINED = 0.2  # of the incidents, at least: fewer are not worth that all stay open for longer


@dataclass(frozen=True, slots=True)
class Longer:
    """What would be opened if it had to last so many minutes; `is_better`: of fewer incidents that
    still tell of most dollars those of the longest wait.
    """

    minutes: float
    incidents: int
    owners: int
    cost_usd: Decimal
    kept: Decimal | None  # of the dollars; None = there are none
    is_better: bool


def longer(tried: BackTest) -> list[Longer]:
    """Of longer waits, as far as each opens something, and fewer."""
    whole_usd = tried.cost_usd
    counts = {len(tried.trials)}
    rows = []
    for wait in tried.waits:
        if wait.incidents and wait.incidents not in counts:
            counts.add(wait.incidents)
            share = wait.cost_usd / whole_usd if whole_usd else None
            of = (wait.minutes, wait.incidents, wait.owners, wait.cost_usd)
            rows.append(Longer(*of, share, is_better=False))
    good = [row for row in rows if row.kept is not None and row.kept >= KEPT]
    return [replace(row, is_better=row in good[-1:]) for row in rows]


@dataclass(frozen=True, slots=True)
class Later:
    """How many incidents there would be if each resolved only after it was over for so many
    minutes; `is_better`: the shortest that joins most of what can be joined.
    """

    minutes: float
    count: int
    is_better: bool


def later(tried: BackTest) -> list[Later]:
    """Of longer times to resolve after, as far as each makes fewer incidents."""
    whole = fewest = len(tried.trials)
    rows: list[Later] = []
    for ending in tried.endings:
        if ending.incidents < fewest:
            rows.append(Later(ending.minutes, ending.incidents, is_better=False))
            fewest = ending.incidents
    least = max((whole - fewest) / 2, whole * JOINED)
    good = [row for row in rows if whole - row.count >= least]
    return [replace(row, is_better=row in good[:1]) for row in rows]
