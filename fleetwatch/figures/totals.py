"""Totals of GPU time and its dollars: what selectors give back. Pure.

Milliseconds are exact integers. Dollars are Decimals divided once and not rounded; whoever
shows them rounds (pricing.usd) or splits a rounded total into lines (pricing.lines).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.lib.intervals import HOUR_MS

# what "wasted" means without a word beside it (docs/ledger.md)
HEADLINE_TIERS = ("certain", "probable")
# of which time can be that at all; of all others "$0.00 wasted" would be no finding
HEADLINE_STATES = frozenset(("stalled", "idle", "orphaned"))
# what only a held GPU can be
ALLOCATED_STATES = ("useful", "underused", "stalled", "idle", "starting")
ZERO = Decimal(0)
NOTICEABLE = Decimal("0.01")  # of the wasted dollars: less is not worth a second figure
LEAST_USEFUL = 0.05  # of the dollars: below it dollars per useful GPU-hour say nothing

UNALLOCATED = ""  # the key of time that no job held: free, orphaned, unavailable, ...
NOBODY = "(none)"  # the key of jobs that name nobody, and of GPUs of no known model
# the key of jobs that name a user or an account to which no rule gives a team (project, cost
# centre)
UNMAPPED = "(unmapped)"
WHY = {NOBODY: "the job names no user or account", UNMAPPED: "no rule matched"}
OWNERS = ("team", "project", "cost_centre")  # whose a job's time is at a moment: attribution.py
Line = tuple[str, str]  # key and label of a group


def without(owner: str, *, is_named: bool) -> Line:
    """Key and label of jobs without a team (project, cost centre), by the reason."""
    key = UNMAPPED if is_named else NOBODY
    return (key, f"no {owner.replace('_', ' ')}: {WHY[key]}")


@dataclass(frozen=True, slots=True)
class Totals:
    """GPU time and dollars of a period, a group or a bucket."""

    capacity_ms: int
    states: dict[str, int]  # all nine; they sum to capacity_ms
    cost_usd: Decimal
    cost_by_state: dict[str, Decimal]
    waste_ms: dict[str, int]  # certain, probable, potential
    waste_usd: dict[str, Decimal]
    unpriced_ms: int  # no rate held then: not in any dollar figure
    has_example_rates: bool  # some of the dollars come from a shipped list price
    energy_j: float | None  # None = nobody read it
    energy_ms: int = 0  # GPU time of entries in which it was read, at least in part
    # useful by "a kernel was running" alone: left out of every efficiency figure
    busy_only_ms: int = 0
    busy_only_usd: Decimal = ZERO
    # stalled, and no waste: of services, which wait for requests
    waiting_ms: int = 0
    waiting_usd: Decimal = ZERO

    @property
    def observed_ms(self) -> int:
        return self.capacity_ms - self.states["unobserved"]

    @property
    def coverage(self) -> float | None:
        """Observed ÷ capacity, 0 to 1; None without capacity."""
        return self.observed_ms / self.capacity_ms if self.capacity_ms else None

    @property
    def energy_coverage(self) -> float | None:
        """GPU time whose energy was read ÷ capacity, 0 to 1; None without capacity."""
        return self.energy_ms / self.capacity_ms if self.capacity_ms else None

    @property
    def mean_w(self) -> float | None:
        """Mean draw of a GPU over the time whose energy was read; None without any."""
        return (
            self.energy_j * 1000 / self.energy_ms
            if self.energy_j is not None and self.energy_ms
            else None
        )

    @property
    def wasted_ms(self) -> int:
        """Certain and probable; potential stands apart."""
        return sum(self.waste_ms[tier] for tier in HEADLINE_TIERS)

    @property
    def wasted_by_tier(self) -> dict[str, Decimal]:
        """The dollars of certain and probable, which sum to wasted."""
        return {tier: self.waste_usd[tier] for tier in HEADLINE_TIERS}

    @property
    def wasted_usd(self) -> Decimal:
        return sum(self.wasted_by_tier.values(), ZERO)

    @property
    def wasted_usd_at_most(self) -> Decimal:
        """Wasted dollars if all that nobody observed was wasted too; `wasted_usd` counts it as
        useful.
        """
        return self.wasted_usd + self.cost_by_state["unobserved"]

    @property
    def may_be_more(self) -> bool:
        """Whether `wasted_usd_at_most` is noticeably more than `wasted_usd`."""
        return self.cost_by_state["unobserved"] > self.wasted_usd * NOTICEABLE

    @property
    def available_ms(self) -> int:
        """Observed time in which the GPU could work."""
        return self.observed_ms - self.states["unavailable"]

    @property
    def occupancy(self) -> float | None:
        """Allocated ÷ available, 0 to 1; None without available time."""
        return self._allocated_ms / self.available_ms if self.available_ms else None

    @property
    def activity(self) -> float | None:
        """Working ÷ allocated, 0 to 1; None without allocated time."""
        working_ms = self.states["useful"] + self.states["underused"]
        return working_ms / self._allocated_ms if self._allocated_ms else None

    @property
    def _allocated_ms(self) -> int:
        return sum(self.states[state] for state in ALLOCATED_STATES)

    @property
    def shown_states(self) -> dict[str, int]:
        """The states with what is only utilisation (`unverified`) apart from useful, and what
        services wait (`waiting`) from stalled.
        """
        return apart(self.states, self.busy_only_ms, self.waiting_ms)

    @property
    def shown_cost(self) -> dict[str, Decimal]:
        """Their dollars."""
        return apart(self.cost_by_state, self.busy_only_usd, self.waiting_usd)

    @property
    def useful_share_of_observed(self) -> float | None:
        """Useful ÷ observed, 0 to 1, "busy, unverified" left out of both; None without any, or
        where all the useful time is so.
        """
        counted_ms = self.observed_ms - self.busy_only_ms
        if counted_ms <= 0 or self._is_useful_unmeasured:
            return None
        return (self.states["useful"] - self.busy_only_ms) / counted_ms

    @property
    def wasted_share_of_observed(self) -> float | None:
        return self.wasted_ms / self.observed_ms if self.observed_ms else None

    @property
    def wasted_share_of_cost(self) -> Decimal | None:
        """Wasted dollars ÷ all dollars, 0 to 1; None without dollars."""
        return self.wasted_usd / self.cost_usd if self.cost_usd else None

    @property
    def efficiency(self) -> float | None:
        """Useful ÷ (useful + underused), 0 to 1, of the time whose efficiency was measured; None
        without any.
        """
        measured_ms = self.states["useful"] - self.busy_only_ms
        active_ms = measured_ms + self.states["underused"]
        return measured_ms / active_ms if active_ms else None

    @property
    def verified_usd(self) -> Decimal:
        """All dollars but "busy, unverified": what spend efficiency is a share of."""
        return self.cost_usd - self.busy_only_usd

    @property
    def spend_efficiency(self) -> float | None:
        """Useful dollars ÷ all dollars, 0 to 1, "busy, unverified" left out of both.

        None without dollars, and where all the useful time is "busy, unverified": 0 would be a lie.
        """
        if self.verified_usd <= 0 or self._is_useful_unmeasured:
            return None
        return float((self.cost_by_state["useful"] - self.busy_only_usd) / self.verified_usd)

    @property
    def priced_ms(self) -> int:
        """GPU time that has a rate."""
        return self.capacity_ms - self.unpriced_ms

    @property
    def usd_per_gpu_hour(self) -> Decimal | None:
        """What a GPU-hour that has a rate costs on the mean; None where none has."""
        return self.cost_usd * HOUR_MS / self.priced_ms if self.priced_ms else None

    @property
    def usd_per_useful_gpu_hour(self) -> Decimal | None:
        """All dollars ÷ useful GPU-hours, "busy, unverified" left out of both; None without useful
        time or dollars.
        """
        measured_ms = self.states["useful"] - self.busy_only_ms
        if not measured_ms or not self.cost_usd:
            return None
        return self.verified_usd * HOUR_MS / measured_ms

    @property
    def shown_usd_per_useful_gpu_hour(self) -> Decimal | None:
        """The same for people; None too where hardly anything was useful: thousands of dollars an
        hour say nothing.
        """
        is_told = (self.spend_efficiency or 0) >= LEAST_USEFUL
        return self.usd_per_useful_gpu_hour if is_told else None

    @property
    def _is_useful_unmeasured(self) -> bool:
        return bool(self.busy_only_ms) and self.busy_only_ms == self.states["useful"]


Amount = TypeVar("Amount", int, Decimal)


def apart(amounts: Mapping[str, Amount], unverified: Amount, waiting: Amount) -> dict[str, Amount]:
    """Amounts by state as people see them: `unverified` apart from useful, `waiting` from
    stalled.
    """
    shown: dict[str, Amount] = {}
    for state, amount in amounts.items():
        if state == "useful":
            shown |= {"useful": amount - unverified, "unverified": unverified}
        elif state == "stalled":
            shown |= {"stalled": amount - waiting, "waiting": waiting}
        else:
            shown[state] = amount
    return shown


def nothing() -> Totals:
    """Totals of a period in which the ledger has no entry."""
    return Totals(
        capacity_ms=0,
        states=dict.fromkeys(STATES, 0),
        cost_usd=ZERO,
        cost_by_state=dict.fromkeys(STATES, ZERO),
        waste_ms=dict.fromkeys(TIERS, 0),
        waste_usd=dict.fromkeys(TIERS, ZERO),
        unpriced_ms=0,
        has_example_rates=False,
        energy_j=None,
    )


def together(parts: Iterable[Totals]) -> Totals:
    """The sum of the parts; energy is what was read of it, None where nobody read any."""
    all_parts = [nothing(), *parts]
    sums = {
        field.name: _sum([getattr(part, field.name) for part in all_parts])
        for field in fields(Totals)
    }
    return Totals(**sums)


def less(whole: Totals, part: Totals) -> Totals:
    """What of the whole is not in the part; energy is None where that of one of them is."""
    rest = {
        field.name: _less(getattr(whole, field.name), getattr(part, field.name))
        for field in fields(Totals)
    }
    return Totals(**rest)


def _less(whole: Any, part: Any) -> Any:
    """The difference of amounts, by key of amounts by key; of yes and no what the whole is."""
    if isinstance(whole, dict):
        return {key: amount - part[key] for key, amount in whole.items()}
    if isinstance(whole, bool):
        return whole
    return None if whole is None or part is None else whole - part


def _sum(values: Sequence[Any]) -> Any:
    """The sum of amounts, by key of amounts by key; of yes and no, whether one is yes."""
    if isinstance(values[0], dict):
        return {key: sum(amounts[key] for amounts in values) for key in values[0]}
    if isinstance(values[0], bool):
        return any(values)
    read = [value for value in values if value is not None]
    return sum(read) if read else None


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at.

    None = all; "" for job, user, team, ... = what no job held; NOBODY, UNMAPPED = jobs without one,
    by the reason.
    """

    node: str | None = None  # name
    gpu: str | None = None  # UUID of a GPU (with its MIG instances) or of one instance
    job: str | None = None  # key
    jobs: tuple[int, ...] | None = None  # ids
    user: str | None = None
    team: str | None = None  # slug; whose the time was at that moment
    project: str | None = None
    cost_centre: str | None = None
    gpu_model: str | None = None  # name
    kind: str | None = None  # of the job
    cluster: str | None = None  # of the job
    label: str | None = None  # of the job: "name=value", or a name that has any value
    states: tuple[str, ...] | None = None  # time in these states alone
    shown: tuple[str, ...] | None = None  # and what people see as one of these (SHOWN_STATES)
    is_allocated: bool | None = None  # time that a job held, or that none did


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Group:
    """One line of a breakdown. `key` can be given back in a Scope."""

    key: str
    label: str
    totals: Totals


def rank(group: Group) -> tuple[Decimal, Decimal, int, str]:
    """The most waste first; of equal ones by what they are called."""
    totals = group.totals
    return -totals.wasted_usd, -totals.cost_usd, -totals.wasted_ms, group.key


@dataclass(frozen=True, slots=True)
class Bucket:
    """One step of time; capacity_ms 0 = the ledger says nothing of it (a gap, not a zero)."""

    start: datetime
    totals: Totals


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a breakdown over time: all its buckets have the same starts."""

    key: str
    label: str
    buckets: list[Bucket]


@dataclass(frozen=True, slots=True)
class SpendingNow:
    """What the fleet costs per hour at this moment, and the part of it that stands idle.

    `judged_gpus` have been posted for these minutes: of the others nobody knows yet who holds them.
    Of `unobserved_gpus` among the judged nobody knows it either: their node is silent. They are
    neither allocated nor free.
    """

    usd_per_hour: Decimal
    gpus: int
    judged_gpus: int
    unobserved_gpus: int
    allocated_gpus: int
    idle_gpus: int
    idle_usd_per_hour: Decimal
    unpriced_gpus: int
    has_example_rates: bool

    @property
    def unjudged_gpus(self) -> int:
        """How many GPUs are on the bill, but not in the newest minutes' figures yet."""
        return self.gpus - self.judged_gpus

    @property
    def known_gpus(self) -> int:
        """How many GPUs are known to be allocated or not."""
        return self.judged_gpus - self.unobserved_gpus

    @property
    def unknown_gpus(self) -> int:
        """How many are on the bill of which that is not known."""
        return self.gpus - self.known_gpus
