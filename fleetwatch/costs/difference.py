"""What a change of rates or rules does to the dollars of the last days, before anybody makes it:
made, looked at, taken back.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.models import Rate
from fleetwatch.figures import boundaries, selectors
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.csv_files.csv_rows import Fault
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.sql import taken_back

LOOKS_BACK_DAYS = 30
MONTH_MS = 730 * HOUR_MS  # a twelfth of a year
Groups = dict[str, selectors.Group]  # by key


@dataclass(frozen=True, slots=True)
class SetRate:
    """What a line of rates sets, and the rate of the same subject that holds when it begins; None =
    there is none.
    """

    name: str  # of the subject
    rate: Rate
    before: Rate | None


@dataclass(frozen=True, slots=True)
class Imported:
    """How many lines of a file were set, how many of it stood already, and which of all these are
    like a slip of the pen.
    """

    set: int
    stood: int
    doubts: tuple[Fault, ...] = ()
    rates: tuple[SetRate, ...] = field(default=(), compare=False)  # of a file of rates


@dataclass(frozen=True, slots=True)
class Change:
    """What a line's time costs before and after, in dollars; `label` as totals_by names it."""

    owner: str  # team, project or cost_centre
    label: str
    before_usd: Decimal
    after_usd: Decimal

    @property
    def difference_usd(self) -> Decimal:
        """To the micro-dollar: lines are divided each by itself, and what that cuts off is no
        difference.
        """
        return usd(self.after_usd) - usd(self.before_usd)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a file would do to the dollars of the last closed 30 days."""

    interval: Interval
    # every team (then project, cost centre) and what no job held, the largest difference first
    changes: list[Change]
    total: Change
    unpriced_ms_before: int
    unpriced_ms_after: int
    would: Imported
    recorded_since: datetime | None = None  # where that is within the days

    @property
    def days(self) -> int:
        """Of how many of the days there are figures, a begun one counted."""
        return -(-(self.recorded.end - self.recorded.start) // timedelta(days=1))

    @property
    def recorded(self) -> Interval:
        """The days as far as there are figures."""
        return Interval(self.recorded_since or self.interval.start, self.interval.end)

    @property
    def month_usd(self) -> Decimal:
        """What a month of 730 hours would cost more, at the mean of what is recorded."""
        return self.total.difference_usd * MONTH_MS / self.recorded.duration_ms


def dry_run(
    change: Callable[[], Imported], now: datetime, *, owners: Iterable[str] = ("team",)
) -> DryRun:
    """What the import would change in the dollars of the last closed 30 days, per team and what
    else `owners` names; nothing is written.

    It is the import itself, taken back: what is shown is what comes. Raises RefusedError as it
    does.
    """
    interval = closed_days(now)
    names = tuple(owners)
    before, would, after = taken_back(
        lambda: (_by_owners(interval, names), change(), _by_owners(interval, names))
    )
    changes = [each for name in names for each in _changes(name, before[name], after[name])]
    of_first = [each for each in changes if each.owner == names[0]]
    return DryRun(
        interval=interval,
        changes=changes,
        total=Change(
            "",
            "",
            sum((each.before_usd for each in of_first), ZERO),
            sum((each.after_usd for each in of_first), ZERO),
        ),
        unpriced_ms_before=_unpriced_ms(before[names[0]]),
        unpriced_ms_after=_unpriced_ms(after[names[0]]),
        would=would,
        recorded_since=selectors.not_recorded_before(interval.start, now),
    )


def _unpriced_ms(groups: Groups) -> int:
    return sum(group.totals.unpriced_ms for group in groups.values())


def closed_days(now: datetime) -> Interval:
    """The last 30 days of the organisation that are over."""
    organisation_zone = zone()
    end = boundaries.midnight(now, organisation_zone)
    return Interval(boundaries.midnight(end, organisation_zone, days=-LOOKS_BACK_DAYS), end)


def _by_owners(interval: Interval, owners: Iterable[str]) -> dict[str, Groups]:
    return {
        owner: {group.key: group for group in selectors.totals_by(interval, owner)}
        for owner in owners
    }


def _changes(owner: str, before: Groups, after: Groups) -> list[Change]:
    changes = [
        Change(owner, group.label, _usd(before.get(key)), _usd(after.get(key)))
        for key, group in (before | after).items()
    ]
    return sorted(changes, key=lambda change: (-abs(change.difference_usd), change.label))


def _usd(group: selectors.Group | None) -> Decimal:
    return ZERO if group is None else group.totals.cost_usd
