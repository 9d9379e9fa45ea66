"""What another policy would have said, in GPU time and dollars."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.figures import pricing
from fleetwatch.figures.totals import ZERO
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import trial
from fleetwatch.ledger.policy import STATES, TIERS, Policy
from fleetwatch.ledger.trial import Said, TrialError
from fleetwatch.lib.intervals import Interval, from_ms

# of one request: some seconds of a worker; manage.py try_policy has no bound
MAX_GPU_HOURS = 2_000
MAX_S = 20
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


def compare(
    now_in_force: Policy,
    tried: Policy,
    interval: Interval,
    *,
    group_by: str = "state",
    max_gpu_hours: float | None = None,
    max_s: float = 0.0,
) -> list[Line]:
    """The lines of one grouping. Raises TrialError as compare_by does."""
    if group_by not in GROUPS:
        raise TrialError(f"can't group by {group_by!r}; there is {', '.join(GROUPS)}")
    return compare_by(
        (group_by,), now_in_force, tried, interval, max_gpu_hours=max_gpu_hours, max_s=max_s
    )[group_by]


def compare_by(
    groupings: Collection[str],
    now_in_force: Policy,
    tried: Policy,
    interval: Interval,
    *,
    max_gpu_hours: float | None = None,
    max_s: float = 0.0,
) -> dict[str, list[Line]]:
    """By each of these GROUPS its lines by group, state and tier, of one judgement; of both sides
    they sum to the same capacity and dollars.

    Raises TrialError for more GPU-hours, or (max_s above 0) more seconds, than allowed.
    """
    trial.check_reach(tried)
    _check_size(interval, max_gpu_hours)
    sums: dict[str, Sums] = {
        grouping: defaultdict(lambda: (Counter(), Counter())) for grouping in groupings
    }
    for rows in _within(max_s, trial.compare(now_in_force, tried, interval)):
        rates = _rates(rows)
        for grouping in groupings:
            _add(sums[grouping], rows, _groups(rows, grouping), rates)
    return {grouping: _lines(sums[grouping]) for grouping in groupings}


def _lines(sums: Sums) -> list[Line]:
    return sorted((_line(key, *both) for key, both in sums.items()), key=_order)


def _within(max_s: float, parts: Iterable[Sequence[Said]]) -> Iterator[Sequence[Said]]:
    """Those that are judged within so many seconds (0: all). Raises TrialError after them."""
    began = time.monotonic()
    for rows in parts:
        if max_s and time.monotonic() - began > max_s:
            raise TrialError(
                f"judging takes longer than {max_s:g} s: ask for less, or use manage.py try_policy"
            )
        yield rows


def _check_size(interval: Interval, max_gpu_hours: float | None) -> None:
    if max_gpu_hours is not None and (asked := trial.gpu_hours(interval)) > max_gpu_hours:
        raise TrialError(
            f"{asked:,.0f} GPU-hours are more than {max_gpu_hours:,.0f} at once: ask for less, or"
            " use manage.py try_policy"
        )


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
