"""What changed since the day before: dollars by their reasons, waste by team, time by state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.comparison import Compared, compared, is_unchanged
from fleetwatch.figures.posted import posted_until
from fleetwatch.figures.selectors import Group, Look
from fleetwatch.figures.totals import EVERYTHING, Scope, Totals
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.effects import Effects, Spent, effects

DAY = timedelta(hours=24)
SHOWN = 2  # teams and states that moved most
HOURS = "GPU-hours"  # the reason
LEAST_USD = Decimal("0.01")  # less is no change
LEAST_MS = 360_000  # nor is a tenth of a GPU-hour


@dataclass(frozen=True, slots=True)
class DayChange:
    """The last 24 hours beside the 24 before them."""

    whole: Compared
    effects: Effects  # on dollars; they sum to the change
    wasted_usd: Decimal  # more than before
    teams: list[tuple[str, Decimal]]  # those whose waste moved most the same way, and how much
    states: list[tuple[str, int]]  # GPU-milliseconds more than before, the largest moves
    until: datetime  # where the last 24 hours end

    @property
    def is_wasted_unchanged(self) -> bool:
        """Whether as much was wasted, but for less than half a per cent."""
        before = self.whole.before
        return before is not None and is_unchanged(self.wasted_usd, before.wasted_usd)

    @property
    def more_ms(self) -> int:
        """GPU time that has a rate, more than before; 0 where that explains nothing."""
        is_told = any(reason == HOURS for reason, _ in self.reasons)
        before_ms = self.whole.before.priced_ms if self.whole.before else 0
        return self.whole.totals.priced_ms - before_ms if is_told else 0

    @property
    def wasted_ratio(self) -> float | None:
        """The change of waste as a share of what was wasted before; None where that was nothing."""
        before = self.whole.before
        if before is None or not before.wasted_usd:
            return None
        return float(self.wasted_usd / before.wasted_usd)

    @property
    def reasons(self) -> list[tuple[str, Decimal]]:
        """Why it cost more or less: the effects that are worth a word, the largest first."""
        each = (
            (HOURS, self.effects.volume_usd),
            ("other GPU models", self.effects.mix_usd),
            ("rates", self.effects.rate_usd),
        )
        before_usd = self.whole.before.cost_usd if self.whole.before else Decimal(0)
        large = [
            (reason, usd)
            for reason, usd in each
            if abs(usd) >= LEAST_USD and not is_unchanged(usd, before_usd)
        ]
        return sorted(large, key=lambda reason: -abs(reason[1]))


def day_change(now: datetime, *, scope: Scope = EVERYTHING) -> DayChange | None:
    """The 24 hours until the last minute that all nodes have in the ledger, so that both days are
    as long; None where the ledger does not know all of the day before.
    """
    began = costs.ledger_began()
    until = posted_until(now).every_node
    if began is None or began > until - 2 * DAY:
        return None
    before = _look(Interval(until - 2 * DAY, until - DAY), scope)
    return _between(before, _look(Interval(until - DAY, until), scope), until)


def _look(interval: Interval, scope: Scope) -> Look:
    return costs.look(interval, "gpu_model", "team", scope=scope)


def _between(then: Look, now: Look, until: datetime) -> DayChange:
    whole = Compared("", "", now.totals(), then.totals())
    wasted_usd = whole.totals.wasted_usd - then.totals().wasted_usd
    difference_usd = pricing.usd(whole.change_usd or Decimal(0))
    return DayChange(
        whole,
        effects(_spent(then), _spent(now), difference_usd=difference_usd),
        wasted_usd,
        _teams(compared(now.by("team"), then.by("team")), wasted_usd),
        _states(then.totals(), now.totals()),
        until,
    )


def _spent(seen: Look) -> Mapping[str, Spent]:
    return {line.key: _priced(line) for line in seen.by("gpu_model")}


def _priced(line: Group) -> Spent:
    return Spent(line.totals.priced_ms, line.totals.cost_usd)


def _teams(lines: Iterable[Compared], wasted_usd: Decimal) -> list[tuple[str, Decimal]]:
    """Those that moved as the whole did, the largest first."""
    moves = ((line.label, _wasted_more(line)) for line in lines)
    same = [(label, usd) for label, usd in moves if usd * wasted_usd > 0 and abs(usd) >= LEAST_USD]
    return sorted(same, key=lambda move: (-abs(move[1]), move[0]))[:SHOWN]


def _wasted_more(line: Compared) -> Decimal:
    return line.totals.wasted_usd - (line.before.wasted_usd if line.before else Decimal(0))


def _states(then: Totals, now: Totals) -> list[tuple[str, int]]:
    earlier = then.shown_states
    moves = [(state, gpu_ms - earlier[state]) for state, gpu_ms in now.shown_states.items()]
    large = [(state, gpu_ms) for state, gpu_ms in moves if abs(gpu_ms) >= LEAST_MS]
    return sorted(large, key=lambda move: -abs(move[1]))[:SHOWN]
