"""GPU time and dollars by two policies, added up as nodes are judged."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.figures import pricing
from fleetwatch.figures.totals import ZERO
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.ledger.trial import Said
from fleetwatch.lib.intervals import from_ms

GROUPS = ("state", "team", "job")
UNALLOCATED = "unallocated"
Key = tuple[str, str, str]  # of a line: group, state, tier
ByRate = Counter[Decimal | None]  # milliseconds by dollars per GPU-hour
Sums = defaultdict[Key, tuple[ByRate, ByRate]]  # by the policy that is, and by the tried one


@dataclass(frozen=True, slots=True)
class Line:
    """One group in one state and tier: by the policy that is, and by the one that is tried.

    Time without a rate has no dollars.
    """

    group: str
    state: str
    tier: str
    is_ms: int
    would_ms: int
    is_usd: Decimal
    would_usd: Decimal

    @property
    def more_ms(self) -> int:
        return self.would_ms - self.is_ms

    @property
    def more_usd(self) -> Decimal:
        return self.would_usd - self.is_usd


def together(lines: Iterable[Line]) -> Line:
    """Their sum, which is no one group's."""
    several = list(lines)
    return Line(
        group="",
        state="",
        tier="",
        is_ms=sum(line.is_ms for line in several),
        would_ms=sum(line.would_ms for line in several),
        is_usd=sum((line.is_usd for line in several), ZERO),
        would_usd=sum((line.would_usd for line in several), ZERO),
    )


class TrialSums:
    """Milliseconds of both policies by these GROUPS, and the rates that held for them."""

    def __init__(self, groupings: Collection[str] = GROUPS) -> None:
        self._sums: dict[str, Sums] = {grouping: _no_sums() for grouping in groupings}

    def add(self, rows: Sequence[Said], *, moved_only: Container[str] = ()) -> None:
        """To groupings that are `moved_only` what both policies say alike is not added."""
        rates = _rates(rows)
        moved = [place for place, row in enumerate(rows) if row.is_ms != row.would_ms]
        for grouping, sums in self._sums.items():
            places = moved if grouping in moved_only else range(len(rows))
            own = [rows[place] for place in places]
            _add(sums, own, _groups(own, grouping), [rates[place] for place in places])

    def lines(self, grouping: str) -> list[Line]:
        """By group, state and tier; of both sides they sum to the same capacity and dollars."""
        return sorted((_line(key, *both) for key, both in self._sums[grouping].items()), key=_order)

    def to_json(self) -> dict[str, list[list[Any]]]:
        """By grouping its rows: group, state, tier, rate (None: there was none), and milliseconds
        by the policy that is and by the tried one.
        """
        return {
            grouping: [
                [*key, None if rate is None else str(rate), is_ms[rate], would_ms[rate]]
                for key, (is_ms, would_ms) in sums.items()
                for rate in is_ms.keys() | would_ms.keys()
            ]
            for grouping, sums in self._sums.items()
        }

    @classmethod
    def from_json(cls, kept: dict[str, list[list[Any]]]) -> "TrialSums":
        """What to_json gave."""
        restored = cls(kept.keys() or GROUPS)
        for grouping, rows in kept.items():
            for group, state, tier, rate, is_ms, would_ms in rows:
                sums = restored._sums[grouping][group, state, tier]
                for side, gpu_ms in zip(sums, (is_ms, would_ms), strict=True):
                    side[None if rate is None else Decimal(rate)] += gpu_ms
        return restored


def _no_sums() -> Sums:
    return defaultdict(lambda: (Counter(), Counter()))


def _line(key: Key, is_ms: ByRate, would_ms: ByRate) -> Line:
    return Line(*key, is_ms.total(), would_ms.total(), _usd(is_ms), _usd(would_ms))


def _usd(by_rate: ByRate) -> Decimal:
    return pricing.price((gpu_ms, rate) for rate, gpu_ms in by_rate.items())


def _order(line: Line) -> tuple[str, int, int]:
    return line.group, STATES.index(line.state), ("", *TIERS).index(line.tier)


def _add(
    sums: Sums, rows: Sequence[Said], groups: Sequence[str], rates: Sequence[Decimal | None]
) -> None:
    for row, group, rate in zip(rows, groups, rates, strict=True):
        is_ms, would_ms = sums[group, row.state, row.tier]
        is_ms[rate] += row.is_ms
        would_ms[rate] += row.would_ms


def _groups(rows: Sequence[Said], group_by: str) -> list[str]:
    """The group of each."""
    if group_by == "state":
        return [""] * len(rows)
    ids = {row.job_id for row in rows if row.job_id is not None}
    if group_by == "team":
        team_of = attribution.team_keys(ids)
        return [
            UNALLOCATED if row.job_id is None else team_of(row.job_id, from_ms(row.start_ms))
            for row in rows
        ]
    keys = dict(Job.objects.filter(pk__in=ids).values_list("pk", "key"))
    return [UNALLOCATED if row.job_id is None else keys[row.job_id] for row in rows]


def _rates(rows: Sequence[Said]) -> list[Decimal | None]:
    """The dollars per GPU-hour that held for each."""
    rates = RatesInForce(row.gpu_id for row in rows)
    held = (rates.at(row.gpu_id, from_ms(row.start_ms)) for row in rows)
    return [None if rate is None else rate.usd_per_gpu_hour for rate in held]
