"""What a trial of another policy comes to: how waste moves, in which states and for whom. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from fleetwatch.figures.totals import HEADLINE_TIERS
from fleetwatch.finance.trial_sums import Line, together
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rounding import rounded
from fleetwatch.planning.what_if import MONTH_HOURS
from fleetwatch.reports import printed

SHOWN_MS = 36_000  # 0.01 GPU-hours: what moves less reads as nothing
MAX_MOVERS = 5
# by the state whose time they decide
DECIDED_BY = {
    "idle": ("idle_batch_s", "idle_interactive_s", "idle_service_s"),
    "starting": ("grace_batch_s", "grace_interactive_s", "grace_service_s"),
    "orphaned": ("phantom_memory_bytes",),
}
CENT = Decimal("0.01")
WEEK_HOURS = 7 * 24
# by the threshold from which on a quiet job is idle: whose
IDLE_AFTER = {
    "idle_batch_s": "batch job",
    "idle_interactive_s": "interactive job",
    "idle_service_s": "service",
}


@dataclass(frozen=True, slots=True)
class Mover:
    """A group whose time changes its state, by the key of policy_trial: how much of it, and what is
    wasted by both policies.
    """

    key: str
    moved_ms: int
    wasted: Line

    @property
    def is_usd_moved(self) -> bool:
        """Whether the wasted dollars move by a cent at least."""
        return abs(self.wasted.more_usd) >= CENT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What another policy would have said of some hours; `lines` are of states that it moves by
    SHOWN_MS at least, and so are movers, those first whose wasted dollars move most.
    """

    interval: Interval
    lines: list[Line]
    idle: Line
    wasted: Line
    has_usd: bool  # False: no GPU had a rate
    teams: list[Mover]
    jobs: list[Mover]

    @property
    def hours(self) -> int:
        return (self.interval.end - self.interval.start) // timedelta(hours=1)

    @property
    def is_a_week(self) -> bool:
        """Whether they are enough to speak of a month: fewer have no weekend."""
        return self.hours >= WEEK_HOURS

    @property
    def is_wasted_moved(self) -> bool:
        return abs(self.wasted.more_ms) >= SHOWN_MS

    @property
    def is_idle_moved(self) -> bool:
        return abs(self.idle.more_ms) >= SHOWN_MS

    @property
    def moved_ms(self) -> int:
        """How much time changes its state."""
        return _moved_ms(self.lines)

    @property
    def printed_lines(self) -> list[tuple[Line, Decimal]]:
        """The lines with how many GPU-hours more each has, in hundredths that sum to none: idle as
        it is told above them.
        """
        more = [printed.hours(line.more_ms) for line in self.lines]
        places = [place for place, line in enumerate(self.lines) if line.state == "idle"]
        pinned = {place: rounded(more[place], 2) for place in places} if len(places) == 1 else {}
        return list(
            zip(self.lines, printed.apportioned(more, printed.NOTHING, pinned), strict=True)
        )

    @property
    def is_usd_per_month(self) -> Decimal:
        """What is wasted in MONTH_HOURS like these, by the policy in force."""
        return self._per_month(self.wasted.is_usd)

    @property
    def would_usd_per_month(self) -> Decimal:
        """The same by the tried one."""
        return self._per_month(self.wasted.would_usd)

    @property
    def more_usd_per_month(self) -> Decimal:
        return self._per_month(self.wasted.more_usd)

    def _per_month(self, usd: Decimal) -> Decimal:
        return usd * MONTH_HOURS / self.hours


def outcome(lines: Mapping[str, Sequence[Line]], interval: Interval) -> Outcome:
    """Of the lines by state, team and job, in whole hours."""
    by_state = lines["state"]
    return Outcome(
        interval=interval,
        lines=[line for line in by_state if abs(line.more_ms) >= SHOWN_MS],
        idle=together(line for line in by_state if line.state == "idle"),
        wasted=_wasted(by_state),
        has_usd=together(by_state).is_usd > 0,
        teams=_movers(lines["team"]),
        jobs=_movers(lines["job"]),
    )


def _wasted(lines: Iterable[Line]) -> Line:
    return together(line for line in lines if line.tier in HEADLINE_TIERS)


def _movers(lines: Iterable[Line]) -> list[Mover]:
    groups: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        groups[line.group].append(line)
    movers = [Mover(key, _moved_ms(own), _wasted(own)) for key, own in groups.items()]
    return sorted(
        (mover for mover in movers if mover.moved_ms >= SHOWN_MS),
        key=lambda mover: (-abs(mover.wasted.more_usd), -mover.moved_ms, mover.key),
    )


def _moved_ms(lines: Iterable[Line]) -> int:
    return sum(max(0, line.more_ms) for line in lines)


def most_decided(lines: Iterable[Line]) -> tuple[str, int] | None:
    """The state that has most of the time which thresholds of DECIDED_BY decide, with its
    milliseconds; None where there is none of it.
    """
    spent_ms: dict[str, int] = defaultdict(int)
    for line in lines:
        if line.state in DECIDED_BY:
            spent_ms[line.state] += line.is_ms
    state = max(spent_ms, key=lambda each: spent_ms[each], default="")
    return (state, spent_ms[state]) if spent_ms.get(state) else None


def why_nothing(in_force: Policy, tried: Policy, written: Mapping[str, tuple[str, str]]) -> str:
    """Why no time moves, of the thresholds that were `written` in words: (in force, tried)."""
    changed = [name for name in written if getattr(in_force, name) != getattr(tried, name)]
    if not changed:
        return "These values are in force already."
    if len(changed) == 1 and changed[0] in IDLE_AFTER:
        name = changed[0]
        words = written[name]
        low, high = words if getattr(in_force, name) < getattr(tried, name) else words[::-1]
        return (
            f"No {IDLE_AFTER[name]} was quiet for between {low} and {high} at a stretch, its start"
            " apart: each quiet stretch was shorter or longer."
        )
    if len(changed) == 1:
        return (
            "No GPU time of these hours lies between the value in force and the one that is tried."
        )
    return "No GPU time of these hours lies between the values in force and those that are tried."
